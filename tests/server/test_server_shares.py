"""What one key, or nobody's, may take of a server: requests, space in the store, looks into it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from server_fakes import SOURCE, Clock, FakeAgent, Person

from server import keys
from server.keys import Rates
from server.queue import listing
from server.services import Services
from server.store import Database

on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def refused(answer: object, code: str) -> int:
    """The seconds after which it may come again."""
    assert (answer.status_code, answer.json()["type"]) == (429, f"urn:kernel-harness:{code}")  # type: ignore[attr-defined]
    return int(answer.headers["retry-after"])  # type: ignore[attr-defined]


@on_sqlite
def test_strangers_from_one_address_share_a_limit(serving: Services, http: TestClient, ada: Person):
    serving.settings = replace(serving.settings, strangers_per_minute=6)
    unknown = {"Authorization": f"Bearer kh_{'0' * 16}_{'x' * 43}"}
    asked = [http.get("/v1/leaderboard/scaled"), http.get("/v1/devices"), http.get("/metrics"), http.get("/")]
    asked.append(http.get("/v1/devices", headers=unknown))
    http.cookies.set("harness_key", "none")
    asked.append(http.get("/"))
    assert [answer.status_code for answer in asked] == [200, 200, 200, 200, 401, 200]
    http.cookies.clear()
    for path, headers in (("/v1/leaderboard/scaled", {}), ("/metrics", {}), ("/v1/devices", unknown)):
        assert refused(http.get(path, headers=headers), "too-many-requests") == 11
    assert http.get("/").status_code == 429
    assert http.get("/healthz").status_code == http.get("/readyz").status_code == 200
    assert ada.get("/v1/leaderboard/scaled").status_code == 200, "whoever has a key has a limit of their own"
    clock = serving.clock
    assert isinstance(clock, Clock)
    clock.go(11)
    assert http.get("/v1/devices").status_code == 200


@on_sqlite
def test_a_network_of_addresses_of_one_machine_is_one(serving: Services, http: TestClient):
    serving.settings = replace(serving.settings, strangers_per_minute=1)
    for address, status in (("2001:db8::1", 200), ("2001:db8::2", 429), ("2001:db8:0:1::1", 200), ("10.0.0.1", 200)):
        with TestClient(http.app, client=(address, 1)) as other:
            assert other.get("/v1/devices").status_code == status


@on_sqlite
def test_what_leaves_the_queue_still_counts_for_the_store(
    serving: Services, http: TestClient, ada: Person, bob: Person, admin: Person, worker: Person
):
    serving.settings = replace(serving.settings, sources_bytes_per_hour=3 * len(SOURCE) + 10)
    one = ada.submit()
    agent = FakeAgent(worker, serving.catalogue.versions)
    agent.report(agent.work())
    ada.delete(f"/v1/submissions/{ada.submit()}")
    assert ada.post(f"/v1/submissions/{one}/regrade").status_code == 202
    for again in (
        ada.post("/v1/submissions", {"problem": "scaled", "source": SOURCE}),
        ada.post(f"/v1/submissions/{one}/regrade"),
    ):
        assert 0 < refused(again, "too-much-source") < 3600 / 3
    bob.submit()
    for _ in range(5):
        admin.submit()
    with serving.database.write() as session:
        eve = keys.create(session, "eve", "solver", 0.0, max_queued=2 * serving.settings.max_queued)
    for _ in range(6):
        Person(http, eve).submit()


def test_buckets_that_are_full_are_not_kept():
    rates = Rates()
    assert rates.wait_s("first", 2, 60, 0.0) == rates.wait_s("first", 2, 60, 0.0) == 0
    assert rates.wait_s("first", 2, 60, 0.0) == 30
    for number in range(30_000):
        rates.wait_s(str(number), 2, 60, number / 100)
    assert len(rates._buckets) < 15_000


@on_sqlite
@pytest.mark.parametrize("of_user", [True, False])
@pytest.mark.parametrize(
    "filters", [{}, {"problem": "p"}, {"state": "done"}, {"verdict": "x"}, {"problem": "p", "verdict": "x"}]
)
def test_a_list_reads_only_the_submissions_that_it_shows(database: Database, of_user: bool, filters: dict[str, str]):
    said: list[tuple[str, object]] = []

    @sa.event.listens_for(sa.Engine, "before_cursor_execute")
    def note(_c: object, _k: object, statement: str, parameters: object, *_: object) -> None:
        said.append((statement, parameters))

    try:
        with database.read() as session:
            wanted = {"problem": None, "state": None, "verdict": None, **filters}
            listing(session, user_id=1 if of_user else None, before=50, limit=5, **wanted)  # type: ignore[arg-type]
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    statement, parameters = next(pair for pair in said if "FROM submissions" in pair[0])
    with database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()  # type: ignore[arg-type]
        steps = [row[3] for row in plan if "submissions" in row[3]]
        assert len(steps) == 1
        if not of_user and not filters.keys() & {"state", "verdict"}:
            return  # an admin, for whom the newest of all are read
        index = next(word for word in steps[0].split() if word.startswith("ix_"))
        columns = {row[2] for row in connection.exec_driver_sql(f"PRAGMA index_info({index})")}
    looked_at = {"problem": "problem_id", "state": "state", "verdict": "verdict"}
    assert {looked_at[name] for name in filters} | ({"user_id"} if of_user else set()) <= columns, steps
