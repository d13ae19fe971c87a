"""A clock, people and agents that do what a test says, and reports without a grading."""

from __future__ import annotations

import hashlib
import json
import math
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi.testclient import TestClient
from httpx import Response

from harness.report import Report
from harness.version import VERSION
from server.app import make_app
from server.protocol import ImpatientProtocol
from server.services import Services

ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = json.loads(re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), re.DOTALL)[0])

REFERENCE = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return x * self.weight


def get_inputs(rows=64, features=32):
    return [torch.randn(rows, features)]


def get_init_inputs(features=32):
    return [features]
"""
SOURCE = REFERENCE.partition("def get_inputs")[0].replace("class Model", "class ModelNew")


def write_problem(folder: Path) -> None:
    """A small problem, graded in seconds on a CPU."""
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "problem.toml").write_text('title = "Scaled"\n\n[limits]\ntime_s = 1.0\n')
    (folder / "README.md").write_text("Multiply. <b>Not bold.</b>\n")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += seconds


def report_of(
    work: dict[str, Any],
    *,
    verdict: str = "accepted",
    code: str = "grade.accepted",
    median_us: float = 100.0,
    half_us: float = 1.0,
    device_name: str = "AMD EPYC",
    evidence: dict[str, Any] | None = None,
    message: str = "Right.",
    log: str = "",
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """A report about what an agent was given."""
    report = json.loads(json.dumps(_EXAMPLE))
    report["mode"], report["verdict"], report["log"] = work["mode"], verdict, log
    report["reason"] = {"code": code, "message": message, "evidence": evidence or {}}
    report["warnings"] = [{"code": code, "message": "So.", "evidence": {}} for code in warnings]
    workload = work["workload"] or "default"
    report["problem"] |= {"id": work["problem"], "version": work["problem_version"], "workload": workload}
    report["submission"] = {
        "path": "/somewhere/on/the/agent.py",
        "name": "submission.py",
        "sha256": hashlib.sha256(work["source"].encode()).hexdigest(),
    }
    report["device"]["name"] = device_name
    report["timing"]["candidate"] |= {"median_us": median_us, "ci95_us": [median_us - half_us, median_us + half_us]}
    if work["mode"] != "run" or verdict != "accepted":
        report["timing"] = None
    Report.model_validate(report)
    return report


def has_interval(report: dict[str, Any]) -> bool:
    """Whether a real grading found the ends of every interval, without which no board shows it."""
    timing = report["timing"]
    return all(map(math.isfinite, map(float, (*timing["candidate"]["ci95_us"], *timing["speedup_ci95"]))))


class Person:
    """Somebody with a key."""

    def __init__(self, http: TestClient, key: str) -> None:
        self.http, self.key = http, key
        self.headers = {"Authorization": f"Bearer {key}"}

    def get(self, path: str, **options: Any) -> Response:
        return self.http.get(path, headers=self.headers | options.pop("headers", {}), **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Response:
        headers = self.headers | options.pop("headers", {})
        if body is not None:
            options["content"] = json.dumps(body)
            headers = {"Content-Type": "application/json"} | headers
        return self.http.post(path, headers=headers, **options)

    def delete(self, path: str) -> Response:
        return self.http.delete(path, headers=self.headers)

    def submit(self, problem: str = "scaled", source: str = SOURCE, **more: Any) -> str:
        answer = self.post("/v1/submissions", {"problem": problem, "source": source, **more})
        assert answer.status_code == 202, answer.text
        found: str = answer.json()["id"]
        return found

    def show(self, submission: str) -> dict[str, Any]:
        answer = self.get(f"/v1/submissions/{submission}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


class FakeAgent:
    """Takes work and says what it is told to say, without grading."""

    def __init__(self, person: Person, problems: dict[str, str], **differing: Any) -> None:
        self.person = person
        self.hello = {
            "name": "m1",
            "device": "cpu",
            "kind": "cpu",
            "device_name": "AMD EPYC",
            "version": VERSION,
            "sandbox": "bubblewrap",
            "problems": problems,
            **differing,
        }
        answer = person.post("/v1/agent/hello", self.hello)
        assert answer.status_code == 200, answer.text
        self.welcome = answer.json()

    def claim_answer(self) -> Response:
        return self.person.post("/v1/agent/claim", {"agent_id": self.welcome["agent_id"]})

    def claim(self) -> dict[str, Any] | None:
        answer = self.claim_answer()
        assert answer.status_code == 200, answer.text
        work: dict[str, Any] | None = answer.json()
        return work

    def work(self) -> dict[str, Any]:
        work = self.claim()
        assert work is not None
        return work

    def say(self, work: dict[str, Any], what: str, body: Any, token: str | None = None) -> Response:
        headers = {"X-Attempt-Token": work["token"] if token is None else token}
        return self.person.post(f"/v1/agent/attempts/{work['attempt_id']}/{what}", body, headers=headers)

    def renew(self, work: dict[str, Any], *events: dict[str, Any], first: int = 1) -> str:
        answer = self.say(work, "renew", {"first": first, "events": list(events)})
        assert answer.status_code == 200, answer.text
        standing: str = answer.json()["standing"]
        return standing

    def report(self, work: dict[str, Any], **what: Any) -> bool:
        answer = self.say(work, "report", report_of(work, **what))
        assert answer.status_code == 200, answer.text
        counted: bool = answer.json()["counted"]
        return counted


def events_of(person: Person, submission: str, after: str | None = None) -> list[tuple[str, str, dict[str, Any]]]:
    """The whole stream of a submission that has ended: id, kind, data."""
    headers = {} if after is None else {"Last-Event-ID": after}
    text = person.get(f"/v1/submissions/{submission}/events", headers=headers).text
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


@contextmanager
def listening(serving: Services) -> Iterator[str]:
    """A real web server over these services, in a thread, with no agents; its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        found.listen(512)
        config = uvicorn.Config(
            make_app(serving), log_level="critical", access_log=False, server_header=False, http=ImpatientProtocol
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: server.run(sockets=[found]))
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.getsockname()[1]}"
        finally:
            serving.hub.close()
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server does not end"
