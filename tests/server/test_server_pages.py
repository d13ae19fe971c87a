"""The pages: what strangers write stays text, and forms of other sites do nothing."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient
from server_fakes import SOURCE, FakeAgent, Person, report_of

from server.api.headers import POLICY
from server.pages.charts import WIDTH, histogram, intervals
from server.services import Services

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'"


@pytest.fixture
def agent(worker: Person, serving: Services) -> FakeAgent:
    return FakeAgent(worker, serving.catalogue.versions)


@pytest.fixture
def browser(http: TestClient, ada: Person) -> TestClient:
    """Signed in as ada."""
    answer = http.post("/sign-in", data={"key": ada.key}, follow_redirects=False)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    return http


def test_from_the_form_to_the_verdict(browser: TestClient, agent: FakeAgent, bob: Person):
    page = browser.get("/problems/scaled")
    assert 'action="/submit"' in page.text
    form = {"problem": "scaled", "source": SOURCE.replace("\n", "\r\n"), "label": "", "device": "", "workload": ""}
    sent = browser.post("/submit", data=form | {"mode": "run"}, files={"file": ("", b"")}, follow_redirects=False)
    assert sent.status_code == 303, sent.text
    where = sent.headers["location"]
    waiting = browser.get(where).text
    assert "place 1 in the queue" in waiting
    assert '<script src="/static/watch.js" defer></script>' in waiting
    work = agent.work()
    assert work["source"] == SOURCE
    agent.report(work)
    done = browser.get(where).text
    assert re.search(r"<h1[^>]*>accepted</h1>", done)
    assert "watch.js" not in done
    assert where in browser.get("/submissions").text
    assert done.count("<rect") >= 5, "no histogram"
    board = browser.get("/leaderboard/scaled").text
    assert "ada" in board
    assert board.count("<rect") == 1
    browser.cookies.clear()
    assert browser.get(where, follow_redirects=False).headers["location"] == "/sign-in"
    browser.cookies.set("harness_key", bob.key)
    assert browser.get(where).status_code == 404


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_hostile_text_is_shown_as_text(browser: TestClient, ada: Person, agent: FakeAgent):
    one = ada.submit(source=f"# {HOSTILE}", label=HOSTILE)
    diagnostic = {"file": HOSTILE, "line": 1, "column": 1, "severity": "error", "message": HOSTILE, "hint": None}
    work = agent.work()
    report = report_of(work, verdict="runtime_error", code="run.exception", message=HOSTILE, log=HOSTILE)
    report["reason"]["evidence"] = {"traceback": HOSTILE}
    report["build"]["diagnostics"] = [diagnostic]
    report["warnings"] = [{"code": "sandbox.none", "message": HOSTILE, "evidence": {}}]
    assert agent.say(work, "report", report).json() == {"counted": True}
    for path in (f"/submissions/{one}", "/submissions", "/problems/scaled"):
        page = browser.get(path)
        assert page.headers["content-security-policy"] == POLICY
        assert "<script>" not in page.text
        assert "<img" not in page.text
        assert "<b>" not in page.text
    assert browser.get(f"/submissions/{one}").text.count("&lt;script&gt;alert(1)") >= 6
    for path in ("source", "log"):
        answer = ada.get(f"/v1/submissions/{one}/{path}")
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_form_of_another_site_does_nothing(browser: TestClient, ada: Person):
    one = ada.submit()
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        for path, form in (
            (f"/submissions/{one}/cancel", {}),
            ("/submit", {"problem": "scaled", "source": SOURCE}),
            ("/sign-in", {"key": ada.key}),
            ("/sign-out", {}),
        ):
            assert browser.post(path, data=form, headers=headers, follow_redirects=False).status_code == 403, path
    assert [item["state"] for item in ada.get("/v1/submissions").json()["items"]] == ["queued"]
    # The API takes the cookie for reading only.
    assert browser.get(f"/v1/submissions/{one}").status_code == 200
    assert browser.delete(f"/v1/submissions/{one}").status_code == 401
    assert browser.post(f"/submissions/{one}/cancel", follow_redirects=False).status_code == 303
    assert ada.show(one)["state"] == "cancelled"


def test_charts_hold_every_sample_and_stay_within_their_frame():
    samples = [100.0, 101.0, 101.5, 250.0, float("inf")]
    bars = histogram(samples)
    assert sum(bar.count for bar in bars) == 4
    assert bars[-1].x + bars[-1].width <= WIDTH
    assert (bars[0].low, round(bars[-1].high, 6)) == (100.0, 250.0)
    assert histogram([5.0, 5.0]) == []
    fast, slow = intervals([(9, 11), (900, 1100)])
    assert 0 <= fast.left < fast.left + fast.width < slow.left
    assert slow.left + slow.width == pytest.approx(WIDTH)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_mistakes_get_a_sentence(browser: TestClient, worker: Person):
    empty = browser.post("/submit", data={"problem": "scaled"})
    assert empty.status_code == 422
    assert 'role="alert"' in empty.text
    assert browser.post("/sign-in", data={"key": "kh_wrong"}).status_code == 401
    assert browser.post("/sign-in", data={"key": worker.key}).status_code == 403
    assert browser.get("/problems/..%2f..%2fetc").status_code == 404
    assert browser.get("/static/../app.py").status_code == 404
    assert browser.get("/static/%2e%2e/routes.py").status_code == 404


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_every_page_stands_alone_and_is_labelled(browser: TestClient, ada: Person, agent: FakeAgent):
    one = ada.submit()
    for path in ("/", "/problems/scaled", "/leaderboard/scaled", "/submissions", f"/submissions/{one}", "/sign-in"):
        text = browser.get(path).text
        assert '<html lang="en">' in text
        assert 'name="viewport"' in text
        assert not re.search(r"(src|href|action)=\"(?!/|#)", text), f"{path} leads elsewhere"
        assert " style=" not in text
        assert not re.search(r"<script(?![^>]*src=)", text), f"{path} has a script that the policy refuses"
        for field in re.findall(r"<(?:input|select|textarea)(?![^>]*type=\"hidden\")[^>]*id=\"(\w+)\"", text):
            assert f'<label for="{field}">' in text
