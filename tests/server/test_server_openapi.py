"""Whatever a request holds, the answer is one that the OpenAPI document declares, and never a failure of the server's.

Schemathesis makes the requests from the document, right ones and wrong ones. Here the same few each time; more, and
other ones at each run:

    HARNESS_TEST_EXAMPLES=500 pytest tests/server/test_server_openapi.py
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode
from server_fakes import FakeAgent, Person, listening

from server import keys
from server.app import make_app
from server.catalogue import Catalogue
from server.services import Services
from server.settings import Settings
from server.store import Database

EXAMPLES = int(os.environ.get("HARNESS_TEST_EXAMPLES", "0"))
MANY = 10**9


def _document() -> dict[str, Any]:
    """As the server gives it; it is the same whatever the store and the problems hold."""
    return make_app(Services(Database("sqlite://"), Catalogue({}), Settings(problems=Path()))).openapi()


DOCUMENT = _document()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}

CONFIG: dict[str, Any] = {
    # A parameter that no operation knows is ignored, as it is on the web.
    "generation": {"max-examples": EXAMPLES or 8, "allow-extra-parameters": False},
}
if not EXAMPLES:
    # A report's schema has hundreds of places, and each of them in all its edge cases takes a third of the time of all.
    report = {"include-path": "/v1/agent/attempts/{attempt_id}/report", "phases": {"coverage": {"enabled": False}}}
    CONFIG["operations"] = [report]
schema = schemathesis.openapi.from_dict(DOCUMENT, config=SchemathesisConfig.from_dict(CONFIG))
# What a schema allows can still be refused: there is no such problem, a source is no text, a label is more than a line.
REFUSED_ALTHOUGH_VALID = CHECKS.get_one("positive_data_acceptance")
# A list in a query is a parameter that comes several times; the last one counts.
ACCEPTED_ALTHOUGH_WRONG = CHECKS.get_one("negative_data_rejection")


@dataclass
class Live:
    """A server with a little in it."""

    url: str
    keys: dict[str, str]
    submissions: list[str] = field(default_factory=list)
    work: dict[str, Any] = field(default_factory=dict)

    def lead_somewhere(self, case: Any) -> None:
        """Make a request that names something be about what is there: at random it would hardly ever be."""
        if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
            return
        if "submission_id" in case.path_parameters:
            # A stream ends when its submission has.
            usable = self.submissions[:2] if case.path.endswith("/events") else self.submissions
            which = len(str(case.path_parameters["submission_id"])) % len(usable)
            case.path_parameters["submission_id"] = usable[which]
        if "problem" in case.path_parameters:
            case.path_parameters["problem"] = "scaled"
        if "attempt_id" in case.path_parameters:
            case.path_parameters["attempt_id"] = self.work["attempt_id"]
            case.headers["X-Attempt-Token"] = self.work["token"]
        if isinstance(case.body, dict) and "wait_s" in case.body:
            case.body["wait_s"] = 0
        if isinstance(case.body, dict) and "problem" in case.body and case.path == "/v1/submissions":
            case.body["problem"] = "scaled"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path, problems: Path) -> Iterator[Live]:
    """One server for all of them, with submissions that are done, cancelled, at work and waiting."""
    path = tmp_path_factory.mktemp("openapi") / "store.db"
    shutil.copy(sqlite_template, path)
    database = Database.file(path)
    limits = Settings(problems=problems, requests_per_minute=MANY, max_queued=MANY, strangers_per_minute=MANY)
    serving = Services(database, Catalogue.load(problems), limits)
    with database.write() as session:
        made = {role: keys.create(session, role, role, serving.clock()) for role in keys.ROLES}
    with listening(serving) as url, httpx.Client(base_url=url) as http:
        found = Live(url, made)
        solver = Person(http, made["solver"])
        agent = FakeAgent(Person(http, made["agent"]), serving.catalogue.versions)
        for end in ("done", "cancelled", "at work", "waiting"):
            found.submissions.append(solver.submit(label=end))
            if end == "done":
                agent.report(agent.work())
            elif end == "cancelled":
                solver.delete(f"/v1/submissions/{found.submissions[-1]}")
            elif end == "at work":
                found.work = agent.work()
        yield found
    database.close()


@schema.parametrize()
@settings(max_examples=EXAMPLES or 8, derandomize=not EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_declared(case: schemathesis.Case, live: Live) -> None:
    live.lead_somewhere(case)
    role = "agent" if case.path.startswith("/v1/agent/") else "solver"
    headers = {"Authorization": f"Bearer {live.keys[role]}"}
    excluded = [REFUSED_ALTHOUGH_VALID]
    if any(isinstance(value, list) for value in case.query.values()):
        excluded.append(ACCEPTED_ALTHOUGH_WRONG)
    case.call_and_validate(base_url=live.url, headers=headers, excluded_checks=excluded)


def test_the_examples_of_the_document_are_what_it_says() -> None:
    shown = 0
    for model in DOCUMENT["components"]["schemas"].values():
        validator = jsonschema_rs.validator_for({**model, "components": DOCUMENT["components"]})
        for example in model.get("examples", ()):
            validator.validate(example)
            shown += 1
    assert shown >= 8, "the document should show by example what its requests and answers look like"


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_every_operation_says_what_it_does_and_how_it_fails(operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation["description"]
    assert operation["tags"]
    failures = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
    assert {"422", "431"} <= failures.keys()
    for answer in failures.values():
        assert list(answer["content"]) == ["application/problem+json"]
    assert ("401" in failures) is ("security" in operation)
