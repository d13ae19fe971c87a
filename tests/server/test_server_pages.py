"""The pages: what strangers write stays text, and forms of other sites do nothing."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from server_fakes import SOURCE, FakeAgent, Person, report_of

from harness.profiling.result import Profile
from server.api.headers import POLICY
from server.pages.charts import WIDTH, histogram, intervals
from server.pages.source import annotated
from server.pages.statement import as_html
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
    assert board.count("<circle") == 1
    browser.cookies.clear()
    assert browser.get(where, follow_redirects=False).headers["location"] == "/sign-in"
    browser.cookies.set("harness_key", bob.key)
    assert browser.get(where).status_code == 404


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_page_says_what_a_submission_waits_for(browser: TestClient, ada: Person, worker: Person, serving: Services):
    one = ada.submit(device="cuda", file_name="mine.py")
    told = "No agent for cuda that has this problem is here now; it waits until one comes."
    waiting = browser.get(f"/submissions/{one}").text
    assert f'<p id="waits">{told}</p>' in waiting
    assert "<code>mine.py</code>" in waiting
    FakeAgent(worker, serving.catalogue.versions, device="cuda:0", kind="cuda")
    assert 'id="waits"' not in browser.get(f"/submissions/{one}").text


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_browser_gets_errors_as_pages(browser: TestClient, monkeypatch: pytest.MonkeyPatch):
    as_browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    def is_page(answer: Response, status: int) -> None:
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-security-policy"] == POLICY
        assert '<a href="/">To the problems</a>' in answer.text

    for path in ("/nowhere", "/problems/scald", "/submissions/0", "/leaderboard/none"):
        is_page(browser.get(path, headers=as_browser), 404)
    assert "scaled was probably meant" in browser.get("/problems/scald", headers=as_browser).text
    is_page(browser.get("/submissions?cursor=x", headers=as_browser), 422)
    assert "There is nothing at this address." in browser.get("/nowhere", headers=as_browser).text
    is_page(browser.delete("/", headers=as_browser), 405)
    is_page(browser.post("/submit", headers=as_browser | {"Origin": "http://elsewhere"}), 403)
    is_page(browser.post("/submit", headers=as_browser, content=b"x" * (5 << 20)), 413)
    for path, headers in (("/v1/submissions/0", as_browser), ("/nowhere", {"Accept": "*/*"})):
        answer = browser.get(path, headers=headers)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.status_code == 404

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("server.pages.routes.device_views", fails)
    failed = browser.get("/", headers=as_browser)
    is_page(failed, 500)
    assert "secret" not in failed.text


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
def test_a_time_without_an_interval_is_shown_and_on_no_board(browser: TestClient, ada: Person, agent: FakeAgent):
    one = ada.submit()
    work = agent.work()
    report = report_of(work)
    for figures in (report["timing"]["candidate"], report["timing"]["reference"]):
        figures["ci95_us"], figures["samples_us"] = [0.0, "Infinity"], [1.0, 2.0, "Infinity"]
    report["timing"] |= {"speedup_ci95": [0.0, "Infinity"], "fraction_of_floor": "NaN", "floor_us": 1.0}
    report["timing"]["shortfall"] = "The candidate's interval has no ends."
    assert agent.say(work, "report", report).json() == {"counted": True}
    page = browser.get(f"/submissions/{one}")
    assert page.status_code == 200
    for told in ("0 µs to unknown", "No leaderboard shows this time", "interval has no ends."):
        assert told in page.text
    assert ada.get("/v1/leaderboard/scaled").json()["entries"] == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_profile_is_asked_for_and_shown(browser: TestClient, ada: Person, agent: FakeAgent):
    one = ada.submit(mode="profile")
    work = agent.work()
    assert work["mode"] == "profile"
    report = report_of(work)
    operator = {"name": "aten::<mul>", "count": 2, "self_us": 12.5, "share": 0.75}
    finding = {"code": "host.slow", "message": "Half the time is Python.", "advice": "Call less.", "gain": 0.5}
    report["profile"] = Profile.model_validate(
        {
            "call": {"us": 50.0, "range_us": [40.0, 60.0], "host_us": 30.0, "calls": 9},
            "findings": [finding],
            "operators": [operator],
            "counters": {"read": False, "why_not": "no GPU"},
        }
    ).model_dump(mode="json")
    assert agent.say(work, "report", report).json() == {"counted": True}
    assert ada.show(one)["report"]["profile"]["findings"][0]["code"] == "host.slow"
    page = browser.get(f"/submissions/{one}").text
    for text in ("Half the time is Python. Call less.", "about 50 % of a call", "aten::&lt;mul&gt;", "12.5 µs", "75 %"):
        assert text in page, text
    assert ada.get("/v1/leaderboard/scaled").json()["entries"] == []


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
    samples = [100.0, 101.0, 101.5, 250.0, float("inf"), "NaN"]
    bars = histogram(samples)
    assert sum(bar.count for bar in bars) == 4
    assert bars[-1].x + bars[-1].width <= WIDTH
    assert (bars[0].low, round(bars[-1].high, 6)) == (100.0, 250.0)
    assert histogram([5.0, 5.0]) == []
    (fast, slow), ticks = intervals([(9, 10, 11), (900, 1000, 1100)])
    assert 0 < fast.left < fast.middle < fast.left + fast.width < slow.left
    assert slow.left < slow.middle < slow.left + slow.width < WIDTH
    assert [tick.value for tick in ticks] == [10, 100, 1000]
    assert ticks[0].x == pytest.approx(fast.middle)


@pytest.mark.parametrize("low", [0.0, 0.03, 1.0, 7.7, 1234.0, 9.9e5])
@pytest.mark.parametrize("factor", [1.0, 1.0001, 1.1, 3.0, 80.0, 1e6])
def test_a_plot_has_a_few_round_marks_within_its_frame(low: float, factor: float):
    (row,), ticks = intervals([(low, low, low * factor)])
    assert 0 <= row.left <= row.middle <= row.left + row.width <= WIDTH
    assert 2 <= len(ticks) <= 6
    assert all(0 <= tick.x <= WIDTH for tick in ticks)
    assert len({f"{tick.value:.3g}" for tick in ticks}) == len(ticks)


def test_what_a_compiler_says_stands_beside_the_line_it_means():
    def said(line: int | None, **more: int | None) -> dict[str, object]:
        return {"file": "cuda_sources", "line": line, "severity": "error", "message": "m", "hint": None, **more}

    diagnostics = [
        said(2, submission_line=3),
        said(9, submission_line=99),
        said(2, submission_line=None),
        said(2),  # of a report that was made before they were placed
    ]
    report = {"reason": {"code": "build.failed", "evidence": {}}, "build": {"diagnostics": diagnostics}}
    lines, elsewhere = annotated("a\nb\nc\n", report)
    assert [line.number for line in lines if line.notes] == [3]
    assert elsewhere == diagnostics[1:]


def test_a_syntax_error_stands_beside_its_line():
    report = {
        "reason": {"code": "submission.syntax_error", "evidence": {"line": 2, "error": "invalid syntax"}},
        "build": {"diagnostics": []},
    }
    lines, _ = annotated("x = 1\ndef f(:\n", report)
    assert [[note.message for note in line.notes] for line in lines] == [[], ["invalid syntax"]]


def test_a_statement_is_markdown_without_html_or_links():
    html = as_html(
        "# Title\n\n## Part\n\n`x` <b>no</b> [a](javascript:alert(1)) ![i](http://x.example/i.png)\n\n"
        "|a|b|\n|-|-|\n|1|2|\n"
    )
    assert "Title" not in html
    assert "<h3>Part</h3>" in html
    assert "<td>2</td>" in html
    for tag in ("<b>", "<a ", "<img"):
        assert tag not in html


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_page_holds_no_more_lines_than_a_browser_shows(browser: TestClient, ada: Person):
    found = ada.submit(source="x\n" * 5010)
    page = browser.get(f"/submissions/{found}").text
    assert page.count("<li>x</li>") == 5000
    assert f'And 10 more lines: <a href="/v1/submissions/{found}/source">' in page
    assert "more lines" not in browser.get(f"/submissions/{ada.submit()}").text


def test_an_agents_key_is_no_persons(http: TestClient, worker: Person, ada: Person):
    http.cookies.set("harness_key", worker.key)
    handed_in = http.post("/submit", data={"problem": "scaled", "source": SOURCE}, follow_redirects=False)
    assert handed_in.headers["location"] == "/sign-in"
    assert http.get("/submissions", follow_redirects=False).headers["location"] == "/sign-in"


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
