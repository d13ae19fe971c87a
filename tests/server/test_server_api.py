"""The API from outside, over both kinds of store."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from server_fakes import SOURCE, Clock, FakeAgent, Person, events_of, report_of

from harness.cli.streams import document
from harness.report import Report
from server import keys
from server.app import expire_now
from server.services import Services


@pytest.fixture
def agent(worker: Person, serving: Services) -> FakeAgent:
    return FakeAgent(worker, serving.catalogue.versions)


def clock_of(serving: Services) -> Clock:
    assert isinstance(serving.clock, Clock)
    return serving.clock


def assert_problem(answer, status: int, code: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert code is None or body["type"] == f"urn:kernel-harness:{code}"
    assert body["status"] == status
    assert body["detail"]


def test_a_submission_goes_from_the_queue_to_its_verdict(ada: Person, agent: FakeAgent):
    one = ada.submit(label="mine")
    assert ada.show(one)["state"] == "queued"
    assert ada.show(one)["queue_place"] == 1
    work = agent.work()
    assert (work["submission"], work["source"], work["problem"]) == (one, SOURCE, "scaled")
    agent.renew(work, {"kind": "stage_started", "stage": "build"})
    assert ada.show(one)["state"] == "building"
    agent.renew(work, {"kind": "stage_started", "stage": "check"}, first=2)
    assert ada.show(one)["state"] == "running"
    assert agent.report(work, log="hello")
    shown = ada.show(one)
    assert (shown["state"], shown["verdict"], shown["attempts"]) == ("done", "accepted", 1)
    assert ada.get(f"/v1/submissions/{one}/log").text == "hello"
    assert ada.get(f"/v1/submissions/{one}/source").text == SOURCE
    assert agent.claim() is None


def test_it_says_what_a_submission_waits_for(ada: Person, worker: Person, serving: Services):
    clock, versions = clock_of(serving), serving.catalogue.versions

    def waits(submission: str) -> str | None:
        found: str | None = ada.show(submission)["waits_for"]
        return found

    anywhere, on_gpu, on_cpu = ada.submit(), ada.submit(device="cuda"), ada.submit(device="cpu")
    made = ada.post("/v1/submissions", {"problem": "scaled", "source": SOURCE, "device": "cuda"}).json()
    assert made["waits_for"] == "cuda"
    assert [waits(one) for one in (anywhere, on_gpu, on_cpu)] == ["any", "cuda", "cpu"]
    FakeAgent(worker, versions | {"scaled": "older"})
    assert waits(on_cpu) == "cpu"
    agent = FakeAgent(worker, versions)
    assert [waits(one) for one in (anywhere, on_gpu, on_cpu)] == [None, "cuda", None]
    gpu = FakeAgent(worker, versions, device="cuda:0", kind="cuda", device_name="NVIDIA H200")
    assert [waits(one) for one in (anywhere, on_gpu, on_cpu)] == [None, None, None]
    assert gpu.person.post("/v1/agent/bye", {"agent_id": gpu.welcome["agent_id"]}).status_code == 200
    assert waits(on_gpu) == "cuda"
    work = agent.work()
    clock.go(3600)
    assert waits(work["submission"]) is None  # it is at work
    assert waits(on_cpu) == "cpu"


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"file_name": "bad.py"}, "bad.py"),
        ({"file_name": "C:\\mine\\bad v2.py", "label": "x.py"}, "bad v2.py"),
        ({"file_name": "../..", "label": "x.py"}, "x.py"),
        ({"file_name": "a\n.py", "label": "one lane / state"}, "submission.py"),
        ({"file_name": 'a";.py'}, "submission.py"),
        ({"file_name": f"{'a' * 98}.py"}, "submission.py"),
        ({"label": ".hidden"}, "submission.py"),
        ({}, "submission.py"),
    ],
)
def test_the_name_of_the_file_is_kept_where_it_is_one(ada: Person, agent: FakeAgent, told: dict[str, str], name: str):
    one = ada.submit(**told)
    assert ada.show(one)["file_name"] == name
    assert ada.get(f"/v1/submissions/{one}/source").headers["content-disposition"] == f'inline; filename="{name}"'
    work = agent.work()
    assert work["name"] == name
    agent.report(work)
    again = ada.post(f"/v1/submissions/{one}/regrade").json()
    assert again["file_name"] == name
    form = {"problem": "scaled", "label": "l"}
    files = {"file": (told.get("file_name", ""), SOURCE.encode())}
    if told.get("file_name") == "bad.py":
        sent = ada.http.post("/v1/submissions", data=form, files=files, headers=ada.headers)
        assert (sent.json()["file_name"], sent.json()["label"]) == ("bad.py", "l")


def test_the_stream_has_every_event_and_goes_on_where_it_broke_off(ada: Person, agent: FakeAgent):
    one = ada.submit()
    work = agent.work()
    started, ended = {"kind": "stage_started", "stage": "load"}, {"kind": "stage_ended", "stage": "load", "seconds": 1}
    agent.renew(work, started)
    agent.renew(work, started, ended)  # the answer to the first got lost, so the agent tells it again
    agent.report(work)
    events = events_of(ada, one)
    assert [kind for _, kind, _ in events] == ["queued", "claimed", "stage_started", "stage_ended", "done"]
    assert events[-1][2]["report"]["verdict"] == "accepted"
    rest = events_of(ada, one, after=events[2][0])
    assert [kind for _, kind, _ in rest] == ["stage_ended", "done"]
    assert [kind for _, kind, _ in events_of(ada, one, after=events[-1][0])] == ["done"]


def test_the_same_idempotency_key_gives_the_same_submission(ada: Person, bob: Person):
    def hand_in(person: Person, source: str):
        body = {"problem": "scaled", "source": source}
        return person.post("/v1/submissions", body, headers={"Idempotency-Key": "k1"})

    first, again = hand_in(ada, SOURCE), hand_in(ada, SOURCE)
    assert first.status_code == again.status_code == 202
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == f"/v1/submissions/{first.json()['id']}"
    assert hand_in(bob, SOURCE).json()["id"] != first.json()["id"]
    assert_problem(hand_in(ada, SOURCE + "#"), 422, "idempotency-key-reused")
    assert len(ada.get("/v1/submissions").json()["items"]) == 1


def test_a_file_can_be_uploaded(ada: Person, agent: FakeAgent):
    files = {"file": ("kernel.py", b"\xef\xbb\xbf" + SOURCE.encode(), "text/x-python")}
    answer = ada.post("/v1/submissions", data={"problem": "scaled", "mode": "check"}, files=files)
    assert answer.status_code == 202, answer.text
    assert answer.json()["label"] == "kernel.py"
    work = agent.work()
    assert (work["source"], work["mode"]) == (SOURCE, "check")
    assert_problem(
        ada.post("/v1/submissions", data={"problem": "scaled"}, files={"file": ("k.py", b"\xff\xfe")}), 422, "not-utf8"
    )


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"problem": "../scaled", "source": "x"}, 422, "no-such-problem"),
        ({"problem": "scaled\x00", "source": "x"}, 422, "no-such-problem"),
        ({"problem": "scaled", "source": "x", "workload": "../../etc"}, 422, "no-such-workload"),
        ({"problem": "scaled", "source": "x", "device": "/dev/null"}, 422, "invalid-request"),
        ({"problem": "scaled", "source": "x", "mode": "compile"}, 422, "invalid-request"),
        ({"problem": "scaled", "source": "x", "label": "a\nb"}, 422, "invalid-request"),
        ({"problem": "scaled", "source": "\ud800"}, 422, "invalid-request"),
        ({"problem": "scaled", "source": "é" * (600 << 10)}, 413, "source-too-large"),
        ({"problem": "scaled", "source": "x", "priority": 1}, 403, "wrong-role"),
        ({"problem": "scaled", "source": "x" * (5 << 20)}, 413, "body-too-large"),
        ({"problem": "scaled"}, 422, "invalid-request"),
        ([], 422, "invalid-request"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(ada: Person, body, status: int, code: str):
    assert_problem(ada.post("/v1/submissions", body), status, code)
    assert ada.get("/v1/submissions").json()["items"] == []


def test_a_source_may_hold_any_character(ada: Person, agent: FakeAgent):
    source = "x = '\x00\u2028\U0001f600'\n"
    one = ada.submit(source=source)
    assert agent.work()["source"] == source
    assert ada.get(f"/v1/submissions/{one}/source").text == source


def test_errors_are_problem_documents_everywhere(http: TestClient, ada: Person):
    assert_problem(http.get("/v1/nothing"), 404, "not-found")
    assert_problem(http.put("/v1/submissions"), 405, "method-not-allowed")
    assert_problem(http.get("/v1/submissions"), 401, "no-key")
    assert_problem(http.get("/v1/submissions", headers={"Authorization": "Bearer kh_x"}), 401, "unknown-key")
    assert_problem(ada.get("/v1/submissions/none"), 404, "no-such-submission")
    assert_problem(ada.get("/v1/submissions?cursor=abc"), 422, "invalid-request")
    assert_problem(ada.post("/v1/submissions", content=b"x", headers={"Content-Type": "text/plain"}), 415, "media-type")
    assert_problem(ada.post("/v1/agent/hello", {}), 403, "wrong-role")


def test_a_solver_reads_only_their_own(ada: Person, bob: Person, admin: Person, worker: Person):
    one = ada.submit()
    for path in ("", "/source", "/log", "/events"):
        assert_problem(bob.get(f"/v1/submissions/{one}{path}"), 404, "no-such-submission")
        assert admin.get(f"/v1/submissions/{one}{path}").status_code == 200 or path == "/events"
        assert_problem(worker.get(f"/v1/submissions/{one}{path}"), 403, "wrong-role")
        if path == "/log":
            admin.delete(f"/v1/submissions/{one}")  # so that the stream of an admin ends
    assert_problem(bob.delete(f"/v1/submissions/{one}"), 404, "no-such-submission")
    assert bob.get("/v1/submissions").json()["items"] == []
    assert [item["user"] for item in admin.get("/v1/submissions").json()["items"]] == ["ada"]


def test_a_solver_sees_no_seed_and_no_values(ada: Person, admin: Person, agent: FakeAgent):
    one = ada.submit()
    leaf = {
        "path": "output",
        "shape": [2, 3],
        "outside": 2,
        "worst_index": [1, 2],
        "worst_value": 7.25,
        "worst_expected": 8.125,
        "reading": "Off.",
    }
    message = "output differs: 7.25, expected 8.125."
    agent.report(agent.work(), verdict="wrong_answer", code="output.values", evidence=leaf, message=message)
    shown = ada.get(f"/v1/submissions/{one}")
    streamed = events_of(ada, one)[-1][2]
    assert streamed["report"] == shown.json()["report"]
    for secret in ('"seed"', "8.125", "7.25", "worst_expected", "worst_value", "/somewhere/on"):
        assert secret not in shown.text
    assert shown.json()["report"]["reason"]["message"] == (
        "output differs from the reference in 2 of 6 elements, farthest at output[1][2]. Off."
    )
    assert admin.show(one)["report"]["reason"]["message"] == message
    assert admin.show(one)["report"]["seed"]


def test_cancelling(ada: Person, agent: FakeAgent):
    waiting, taken, done = ada.submit(), ada.submit(), ada.submit()
    assert ada.delete(f"/v1/submissions/{waiting}").json()["state"] == "cancelled"
    assert ada.delete(f"/v1/submissions/{waiting}").status_code == 200
    work = agent.work()
    assert work["submission"] == taken
    ada.delete(f"/v1/submissions/{taken}")
    assert agent.renew(work) == "cancelled"
    assert not agent.report(work)
    assert ada.show(taken)["verdict"] is None
    agent.report(agent.work())
    assert_problem(ada.delete(f"/v1/submissions/{done}"), 409, "already-done")


def test_an_agent_that_dies_is_replaced_at_most_twice(ada: Person, agent: FakeAgent, serving: Services):
    one = ada.submit()
    for attempt in (1, 2, 3):
        assert ada.show(one)["state"] == "queued"
        work = agent.work()
        clock_of(serving).go(serving.settings.lease_s + 1)
        assert expire_now(serving) == [one]
        assert not agent.report(work), "the report of a lost attempt counts"
        assert ada.show(one)["attempts"] == attempt
    shown = ada.show(one)
    assert (shown["state"], shown["verdict"], shown["reason_code"]) == ("done", "judge_error", "judge.agents_lost")
    assert agent.claim() is None
    kinds = [kind for _, kind, _ in events_of(ada, one)]
    assert kinds == ["queued", "claimed", "requeued", "claimed", "requeued", "claimed", "done"]


def test_only_the_holder_of_the_token_is_heard(ada: Person, agent: FakeAgent, serving: Services):
    one = ada.submit()
    lost = agent.work()
    clock_of(serving).go(serving.settings.lease_s + 1)
    assert agent.renew(lost) == "over"
    held = agent.work()
    assert agent.say(held, "renew", {}, token=lost["token"]).status_code == 404
    assert not agent.report(lost, median_us=1.0)
    assert ada.show(one)["state"] == "building"
    assert agent.report(held, median_us=50.0)
    assert agent.report(held, median_us=50.0), "a report that is repeated word for word is the one that counts"
    assert not agent.report(held, median_us=1.0)
    assert ada.show(one)["report"]["timing"]["candidate"]["median_us"] == 50.0


def test_a_report_about_something_else_is_refused(ada: Person, agent: FakeAgent):
    one = ada.submit()
    work = agent.work()
    for change in ({"source": "other"}, {"problem": "other"}, {"mode": "check"}, {"problem_version": "0" * 64}):
        assert_problem(agent.say(work, "report", report_of(work | change)), 409, "wrong-report")
    assert agent.report(work)
    assert ada.show(one)["verdict"] == "accepted"


def test_users_are_served_in_turn_and_priority_goes_first(
    ada: Person, bob: Person, admin: Person, agent: FakeAgent, serving: Services
):
    of_ada = [ada.submit() for _ in range(3)]
    of_bob = [bob.submit() for _ in range(2)]
    urgent = admin.submit(priority=5)
    places = [person.show(one)["queue_place"] for person, one in [(admin, urgent), (ada, of_ada[2]), (bob, of_bob[1])]]
    order = []
    while (work := agent.claim()) is not None:
        order.append(work["submission"])
        clock_of(serving).go(1)
        agent.report(work)
    assert order == [urgent, of_ada[0], of_bob[0], of_ada[1], of_bob[1], of_ada[2]]
    assert places == [1 + order.index(one) for one in (urgent, of_ada[2], of_bob[1])]


def test_an_agent_gets_only_what_it_can_grade(ada: Person, worker: Person, serving: Services):
    versions = serving.catalogue.versions
    old = FakeAgent(worker, versions, name="old", version="0.0.1")
    assert old.welcome["refused"]
    assert old.claim_answer().status_code == 409
    bare = FakeAgent(worker, versions, name="bare", sandbox="none")
    assert bare.claim_answer().status_code == 409
    other = FakeAgent(worker, {"scaled": "another version", "other": versions["other"]}, name="other")
    assert other.welcome["other_problems"] == ["scaled"]
    on_gpu, anywhere = ada.submit(device="cuda"), ada.submit()
    assert other.claim() is None
    gpu = {"device": "cuda:0", "kind": "cuda", "device_name": "NVIDIA H200"}
    cpu, cuda = FakeAgent(worker, versions), FakeAgent(worker, versions, name="gpu", **gpu)
    assert cpu.claim() is None, "a GPU is there, so what names no device is for that"
    assert [cuda.work()["submission"], cuda.work()["submission"]] == [on_gpu, anywhere]
    states = {one["agent"]: one["state"] for one in worker.get("/v1/devices").json()}
    assert states == {"old": "refused", "bare": "refused", "other": "idle", "m1": "idle", "gpu": "busy"}
    clock_of(serving).go(serving.settings.away_s + 1)
    ada.submit()
    assert cpu.claim() is not None, "the GPU's agent is away"


def test_the_leaderboard_ranks_the_best_of_each_by_interval(
    ada: Person, bob: Person, admin: Person, agent: FakeAgent, http: TestClient
):
    def graded(person: Person, median_us: float, half_us: float, **what) -> str:
        one = person.submit()
        agent.report(agent.work(), median_us=median_us, half_us=half_us, **what)
        return one

    slow = graded(ada, 300, 1)
    fast = graded(ada, 100, 3)
    graded(bob, 104, 3)
    graded(admin, 200, 1)
    graded(bob, 1, 0.1, device_name="another")
    graded(bob, 1, 0.1, verdict="rejected", code="time.below_floor")
    board = http.get("/v1/leaderboard/scaled").json()
    assert board["device"] == "AMD EPYC"
    assert [(e["rank"], e["tied"], e["user"], e["time_us"]) for e in board["entries"]] == [
        (1, True, "ada", 100),
        (1, True, "bob", 104),
        (3, False, "root", 200),
    ]
    assert {e["submission"] for e in board["entries"]} == {None}
    own = ada.get("/v1/leaderboard/scaled").json()["entries"]
    assert [e["submission"] for e in own] == [fast, None, None]
    assert slow not in str(own)
    assert http.get("/v1/leaderboard/scaled?device=another").json()["entries"][0]["user"] == "bob"
    assert http.get("/v1/leaderboard/scaled?device=/etc/passwd").json()["entries"] == []
    assert http.get("/v1/leaderboard/other").json()["entries"] == []
    assert_problem(http.get("/v1/leaderboard/none"), 404, "no-such-problem")


def test_a_regrade_takes_the_place_of_the_earlier_answer(ada: Person, bob: Person, agent: FakeAgent, http: TestClient):
    one = ada.submit()
    assert_problem(ada.post(f"/v1/submissions/{one}/regrade"), 409, "not-done")
    agent.report(agent.work(), median_us=10)
    assert_problem(bob.post(f"/v1/submissions/{one}/regrade"), 404, "no-such-submission")

    def again(**what) -> list[float]:
        answer = ada.post(f"/v1/submissions/{one}/regrade")
        assert (answer.status_code, answer.json()["regrade_of"]) == (202, one)
        agent.report(agent.work(), **what)
        return [entry["time_us"] for entry in http.get("/v1/leaderboard/scaled").json()["entries"]]

    assert again(median_us=20) == [20]
    assert again(verdict="judge_error", code="judge.internal_error") == [20], "says nothing about the submission"
    assert again(median_us=15) == [15]
    assert again(verdict="rejected", code="time.below_floor") == []
    assert ada.show(one)["verdict"] == "accepted", "what was answered stays as it was"


def test_pages_of_the_list(ada: Person):
    made = [ada.submit(label=str(number)) for number in range(5)]
    found, cursor = [], ""
    while True:
        page = ada.get(f"/v1/submissions?limit=2{cursor}").json()
        assert len(page["items"]) <= 2
        found += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == made[::-1]
    assert ada.get("/v1/submissions?state=done").json()["items"] == []
    assert ada.get("/v1/submissions?problem=%00").json()["items"] == []


def test_limits_of_requests_and_of_the_queue(serving: Services, http: TestClient, agent: FakeAgent):
    with serving.database.write() as session:
        key = keys.create(session, "eve", "solver", 0.0, requests_per_minute=6, max_queued=2)
    eve = Person(http, key)
    eve.submit()
    eve.submit()
    full = eve.post("/v1/submissions", {"problem": "scaled", "source": SOURCE})
    assert_problem(full, 429, "queue-full")
    agent.report(agent.work())
    eve.submit()
    assert eve.get("/v1/submissions").status_code == 200
    assert eve.get("/v1/submissions").status_code == 200
    slow_down = eve.get("/v1/submissions")
    assert_problem(slow_down, 429, "too-many-requests")
    clock_of(serving).go(int(slow_down.headers["retry-after"]))
    assert eve.get("/v1/submissions").status_code == 200


def test_a_revoked_key_opens_nothing(serving: Services, ada: Person):
    assert ada.get("/v1/submissions").status_code == 200
    with serving.database.write() as session:
        keys.revoke(session, ada.key.split("_")[1], 0.0)
    assert_problem(ada.get("/v1/submissions"), 401, "unknown-key")


def test_operations(http: TestClient, ada: Person, agent: FakeAgent, serving: Services):
    assert http.get("/healthz").text == "ok\n"
    assert http.get("/readyz").text == "ok\n"
    ada.submit()
    clock_of(serving).go(7)
    text = http.get("/metrics").text
    assert 'harness_submissions_open{state="queued"} 1.0' in text
    assert "harness_queue_age_seconds 7.0" in text
    assert 'harness_agents{kind="cpu",state="idle"} 1.0' in text
    assert 'route="/v1/submissions",status="202"} 1.0' in text
    problem = http.get("/v1/problems/scaled").json()
    assert problem["statement"].startswith("Multiply.")
    assert problem["workloads"][0]["sizes"] == {"rows": 64, "features": 32}
    assert [one["id"] for one in http.get("/v1/problems").json()] == ["other", "scaled"]
    serving.database.engine.dispose()
    described = http.get("/v1/openapi.json").json()
    assert "application/json" in described["paths"]["/v1/submissions"]["post"]["requestBody"]["content"]


@pytest.mark.parametrize("path", ["%00", "..%2f..", "x" * 500, "%F0%9F%98%80", "%22"])
def test_names_from_a_path_break_nothing(ada: Person, admin: Person, path: str):
    for what in ("", "/source", "/log", "/events"):
        assert_problem(admin.get(f"/v1/submissions/{path}{what}"), 404, None)
    assert_problem(ada.post(f"/v1/submissions/{path}/regrade"), 404, None)
    assert ada.get(f"/v1/leaderboard/{path}").status_code in (404, 422)
    assert ada.get(f"/v1/problems/{path}").status_code in (404, 422)
    assert ada.get(f"/v1/leaderboard/scaled?device={path}&workload={path[:60]}").status_code in (200, 422)


def test_whatever_a_submission_prints_its_report_arrives(ada: Person, agent: FakeAgent):
    one = ada.submit()
    work = agent.work()
    report = Report.model_validate(report_of(work, log="a\ud800b\x00\u2028"))
    reason = report.reason.model_copy(update={"evidence": {"ratio": float("nan"), "text": "\udfff"}})
    sent = document(report.model_copy(update={"reason": reason}))  # as the agent's grading process does
    headers = {"X-Attempt-Token": work["token"], "Content-Type": "application/json"}
    answer = agent.person.post(f"/v1/agent/attempts/{work['attempt_id']}/report", content=sent, headers=headers)
    assert answer.json() == {"counted": True}
    assert ada.get(f"/v1/submissions/{one}/log").text == "a?b\x00\u2028"
    assert ada.show(one)["report"]["reason"]["evidence"] == {"ratio": "NaN", "text": "?"}
