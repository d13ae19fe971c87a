"""Leaderboards as they are shown: kept up with every answer, and with notes on times that need some."""

from __future__ import annotations

import random

import httpx
import pytest
from fastapi.testclient import TestClient
from server_fakes import ROOT, FakeAgent, Person, listening

from harness.cli.main import main
from harness.client.marks import MARKS, entry_line
from server import keys
from server.api.boards import LeaderboardView
from server.ranked import KeptBoard, Leaderboards
from server.results import BoardKey
from server.services import Services


@pytest.fixture
def agent(worker: Person, serving: Services) -> FakeAgent:
    return FakeAgent(worker, serving.catalogue.versions)


def test_what_is_kept_is_what_a_fresh_look_finds(
    ada: Person, bob: Person, admin: Person, agent: FakeAgent, serving: Services
):
    draw, kept = random.Random(3), Leaderboards()
    done: list[tuple[Person, str]] = []
    sizes = set()
    for _ in range(25):
        if done and draw.random() < 0.4:
            person, earlier = draw.choice(done)
            one = person.post(f"/v1/submissions/{earlier}/regrade").json()["id"]
        else:
            person = draw.choice([ada, bob, admin])
            one = person.submit()
        verdict = draw.choice(["accepted", "accepted", "rejected"])
        device = draw.choice(["AMD EPYC", "AMD EPYC", "another"])
        agent.report(agent.work(), verdict=verdict, code="x.y", median_us=draw.uniform(10, 20), device_name=device)
        done.append((person, one))
        with serving.database.read() as session:
            there = kept.boards(session, "scaled", serving.catalogue.versions["scaled"])
            for key, changes in there.changes.items():
                entries = kept.entries(session, key, changes)
                assert entries == KeptBoard(key).entries(session, 1)
                assert (key.workload in there.by_device.get(key.device_name, ())) == bool(entries)
                sizes.add(len(entries))
    assert {1, 2, 3} <= sizes


def test_a_look_that_began_earlier_does_not_bring_back_what_was(ada: Person, agent: FakeAgent, serving: Services):
    key = BoardKey("scaled", serving.catalogue.versions["scaled"], "default", "AMD EPYC")
    kept = KeptBoard(key)
    times = []
    for changes, median in ((1, 50.0), (2, 40.0)):
        ada.submit()
        agent.report(agent.work(), median_us=median)
        with serving.database.read() as session:
            times.append([entry.best.median_us for entry in kept.entries(session, changes)])
            times.append([entry.best.median_us for entry in kept.entries(session, 1)])
    assert times == [[50.0], [50.0], [40.0], [40.0]]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_document_is_what_its_model_says(ada: Person, bob: Person, agent: FakeAgent, http: TestClient):
    for person, median in ((ada, 100.0), (bob, 100.5), (bob, 1e-3)):
        person.submit()
        agent.report(agent.work(), median_us=median, half_us=1e-4, warnings=["time.weakly_confirmed"])
    for answer in (
        http.get("/v1/leaderboard/scaled"),
        ada.get("/v1/leaderboard/scaled"),
        http.get("/v1/leaderboard/other"),
    ):
        assert LeaderboardView.model_validate_json(answer.text).model_dump_json() == answer.text
    assert len(http.get("/v1/leaderboard/scaled").json()["entries"]) == 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_time_that_needs_a_note_has_one_and_keeps_its_rank(
    ada: Person, bob: Person, agent: FakeAgent, http: TestClient
):
    ada.submit()
    told = ["time.not_timed", "precision.below_spec", "time.weakly_confirmed"]
    agent.report(agent.work(), median_us=50.0, warnings=told)
    bob.submit()
    agent.report(agent.work(), median_us=90.0)
    first, second = http.get("/v1/leaderboard/scaled").json()["entries"]
    assert (first["user"], first["rank"], first["warnings"]) == (
        "ada",
        1,
        ["time.weakly_confirmed", "precision.below_spec"],
    )
    assert (second["user"], second["rank"], second["warnings"]) == ("bob", 2, [])
    assert entry_line(first).endswith("x, ada, weakly confirmed, less precise")
    assert entry_line(second).endswith("x, bob")
    page = http.get("/leaderboard/scaled").text
    assert page.count('<a href="#time.weakly_confirmed"') == 1
    assert '<span class="unseen">weakly confirmed, note </span>1</a>' in page
    assert '<li id="time.weakly_confirmed"><strong>Weakly confirmed.</strong>' in page
    assert MARKS["precision.below_spec"].sentence in page
    assert "device.busy" not in page


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_command_line_says_what_a_mark_means(serving: Services, capsys: pytest.CaptureFixture[str]):
    with serving.database.write() as session:
        ada, machine = (
            keys.create(session, name, role, serving.clock()) for name, role in (("ada", "solver"), ("m", "agent"))
        )
    with listening(serving) as url, httpx.Client(base_url=url) as http:
        agent = FakeAgent(Person(http, machine), serving.catalogue.versions)
        Person(http, ada).submit()
        agent.report(agent.work(), median_us=50.0, warnings=["time.weakly_confirmed"])
        assert main(["leaderboard", "scaled", "--server", url]) == 0
    shown, told = capsys.readouterr()
    assert shown.splitlines()[1].endswith(", ada, weakly confirmed")
    assert len(shown.splitlines()) == 2
    assert "weakly confirmed: the grader's own clock was too unsure" in told


def test_every_mark_is_a_warning_that_reports_have():
    documented = (ROOT / "docs" / "report.md").read_text()
    for code in MARKS:
        assert f"`{code}`" in documented
