"""The pages in a real browser: as a person uses them, with a keyboard, on a phone, and with hostile text.

It is the system's Chromium (Debian's package `chromium`), driven by Playwright, which downloads nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from server_fakes import ROOT, SOURCE, FakeAgent, Person, has_interval, listening, report_of

from harness import sandbox
from server import keys
from server.catalogue import Catalogue
from server.services import Services
from server.settings import Settings
from server.store import Database

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on PATH: apt-get install chromium")

HOSTILE = (
    "</pre></textarea></title><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>{{7*7}}\"'`"
)
# A compiler's complaint about line 3 of this text belongs to line 5 of the file.
CUDA = f'''# {HOSTILE}
from torch.utils.cpp_extension import load_inline

CODE = """
// <script>alert(4)</script>
int broken;
"""
load_inline(name="x", cpp_sources="", cuda_sources=CODE, functions=[])
'''


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all of them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its own sandbox can't be made by root or inside most containers; what it loads here is this project's.
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


class Tab:
    """A page of the browser, and everything about it that should not be: dialogs, errors, requests to elsewhere."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url, self.wrong = url, []
        self.context = browser.new_context(base_url=url, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console {message.text}")

    def _asked(self, request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.wrong.append(f"request {request.url}")

    def sign_in(self, key: str) -> None:
        self.page.goto("/sign-in")
        self.page.get_by_label("Key").fill(key)
        self.page.get_by_label("Key").press("Enter")
        self.page.wait_for_url(f"{self.url}/")

    def close(self) -> None:
        self.context.close()
        assert self.wrong == []


@pytest.fixture
def serving(sqlite_template: Path, problems: Path, tmp_path: Path) -> Iterator[Services]:
    """Another clock than the other tests': the browser's own time passes."""
    shutil.copy(sqlite_template, tmp_path / "store.db")
    database = Database.file(tmp_path / "store.db")
    yield Services(database, Catalogue.load(problems), Settings(problems=problems))
    database.close()


@pytest.fixture
def live(serving: Services) -> Iterator[tuple[str, str, FakeAgent, Person]]:
    """A server's address, ada's key, an agent that grades nothing by itself, and ada."""
    with serving.database.write() as session:
        ada, machine = (
            keys.create(session, name, role, serving.clock()) for name, role in (("ada", "solver"), ("m", "agent"))
        )
    with listening(serving) as url, httpx.Client(base_url=url) as http:
        yield url, ada, FakeAgent(Person(http, machine), serving.catalogue.versions), Person(http, ada)


@pytest.mark.slow
def test_from_the_address_to_the_leaderboard(browser: Any, tmp_path: Path, problems: Path):
    from playwright.sync_api import Error as BrowserError

    if sandbox.default().name == "none":
        pytest.skip("an agent needs a sandbox, and none works here")
    command = [sys.executable, "-m", "harness", "serve", "--json", "--port", "0", "--devices", "cpu"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    server = subprocess.Popen(
        [*command, "--data", str(tmp_path), "--problems", str(problems)],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        started = json.loads(server.stdout.readline())
        tab = Tab(browser, started["url"])
        tab.sign_in(started["key"])
        tab.page.get_by_role("link", name="Scaled", exact=True).last.click()
        tab.page.get_by_label("or its text").fill(SOURCE)
        tab.page.get_by_label("Name in lists").fill("by hand")
        tab.page.get_by_label("Device").select_option("cpu")
        tab.page.get_by_role("button", name="Hand in").click()
        tab.page.wait_for_url("**/submissions/*")
        # Each stage comes by itself, and so does the verdict.
        seen = ""
        while tab.page.locator("#stages").count():
            # The page is loaded anew with the verdict, which ends a question that is under way.
            with contextlib.suppress(BrowserError):
                seen += tab.page.evaluate("document.getElementById('stages')?.textContent || ''")
            tab.page.wait_for_timeout(50)
        for stage in ("queued", "taken, on", "load", "build", "check", "time"):
            assert stage in seen
        assert tab.page.locator("main h1").inner_text().lower() == "accepted"
        assert tab.page.locator("main > *").first.inner_text().lower().startswith("accepted"), "the verdict comes first"
        report = tab.context.request.get(f"/v1{urlsplit(tab.page.url).path}").json()["report"]
        tab.page.get_by_role("link", name="Leaderboard").click()
        tab.page.wait_for_url("**/leaderboard/*")
        row = tab.page.locator("tbody tr")
        if has_interval(report):
            assert row.count() == 1
            assert "local" in row.inner_text()
            assert tab.page.locator(".intervals circle").count() == 1
        else:  # a machine too busy for one puts nobody on a board
            assert row.count() == 0
        tab.close()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def test_a_submission_while_it_is_graded_and_afterwards(browser: Any, live: Any):
    url, key, agent, ada = live
    tab = Tab(browser, url)
    tab.sign_in(key)
    one = ada.submit(source=CUDA)
    tab.page.goto(f"/submissions/{one}")
    assert "place 1 in the queue" in tab.page.locator("#state").inner_text()
    work = agent.work()
    tab.page.get_by_text("taken, on AMD EPYC").wait_for()
    agent.renew(work, {"kind": "stage_started", "stage": "build"})
    tab.page.locator("#stages .now", has_text="build").wait_for()
    agent.renew(work, {"kind": "progress", "stage": "build", "message": "compiling x"}, first=2)
    tab.page.get_by_text("build: compiling x").wait_for()
    agent.renew(work, {"kind": "stage_ended", "stage": "build", "seconds": 1.5}, first=3)
    tab.page.get_by_text("1.50 s").wait_for()
    report = report_of(work, verdict="compile_error", code="build.failed", message="One error.")
    report["build"]["diagnostics"] = [
        {
            "file": "cuda_sources",
            "line": 3,
            "column": 1,
            "submission_line": CUDA.split("\n").index("int broken;") + 1,
            "severity": "error",
            "message": "expected a <b>declaration</b>",
            "hint": "Write one.",
        },
        {"file": "x.h", "line": 3, "column": 1, "severity": "warning", "message": "elsewhere", "hint": None},
    ]
    kernel = {"name": "void f<int>(int*)", "arch": "sm_90", "registers": 40, "shared_bytes": 1024, "stack_bytes": 0}
    kernel |= {"spill_store_bytes": 8, "spill_load_bytes": 4, "constant_bytes": 400}
    report["build"]["kernels"] = [kernel]
    assert agent.say(work, "report", report).json() == {"counted": True}
    tab.page.locator(".banner.bad").wait_for()
    tab.page.wait_for_load_state()
    told = tab.page.locator(".source li.told")
    assert told.count() == 1
    assert told.inner_text().startswith("int broken;")
    assert "error: expected a <b>declaration</b> Write one." in told.inner_text()
    assert "elsewhere" in tab.page.get_by_text("in x.h, line 3").inner_text()
    cells = tab.page.get_by_role("region", name="Kernels").locator("tbody td").all_inner_texts()
    assert cells == ["void f<int>(int*)", "sm_90", "40", "1024 B", "0 B", "12 B", "400 B"]
    tab.close()


def test_a_page_that_finds_no_room_to_watch_tries_again(browser: Any, live: Any, serving: Services):
    url, key, agent, ada = live
    serving.settings = replace(serving.settings, streams_per_key=0)
    tab = Tab(browser, url)
    tab.sign_in(key)
    tab.page.clock.install()
    one = ada.submit()
    tab.page.goto(f"/submissions/{one}")
    tab.page.get_by_text("trying again").wait_for()
    serving.settings = replace(serving.settings, streams_per_key=1, stream_s=0.5)
    agent.work()
    tab.page.clock.fast_forward(15_000)
    tab.page.get_by_text("taken, on AMD EPYC").wait_for()
    assert tab.page.get_by_text("trying again").count() == 0
    ada.delete(f"/v1/submissions/{one}")  # by then the browser has taken up a stream or two that had lasted enough
    tab.page.get_by_text("cancelled").first.wait_for()
    assert ["429" in wrong for wrong in tab.wrong] == [True]
    tab.wrong.clear()
    tab.close()


def test_hostile_text_stays_text(browser: Any, live: Any):
    url, key, agent, ada = live
    tab = Tab(browser, url)
    tab.sign_in(key)
    one = ada.submit(source=CUDA, label=HOSTILE[:100])
    work = agent.work()
    agent.renew(work, {"kind": "stage_started", "stage": "<img src=x onerror=alert(5)>"})
    tab.page.goto(f"/submissions/{one}")
    tab.page.get_by_text("<img src=x onerror=alert(5)>").wait_for()
    report = report_of(work, verdict="runtime_error", code="run.exception", message=HOSTILE, log=HOSTILE)
    report["reason"]["evidence"] = {"traceback": HOSTILE}
    report["build"]["diagnostics"] = [
        {"file": "cuda_sources", "line": 2, "column": 1, "severity": "error", "message": HOSTILE, "hint": HOSTILE}
    ]
    report["warnings"] = [{"code": "sandbox.none", "message": HOSTILE, "evidence": {}}]
    assert agent.say(work, "report", report).json() == {"counted": True}
    tab.page.locator(".banner.bad").wait_for()
    tab.page.wait_for_load_state()
    # The source once, and each of message, traceback, diagnostic, hint, warning and log.
    assert tab.page.locator("main").inner_text().count(HOSTILE) == 7
    tab.page.goto("/submissions")
    assert HOSTILE[:100] in tab.page.locator("tbody").inner_text()
    tab.page.goto(f"/v1/submissions/{one}/log")
    assert HOSTILE in tab.page.locator("body").inner_text()
    # What the policy is for: a script that got into a page would not run. It says so on the console, this once.
    tab.page.goto("/")
    tab.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'alert(6)'; document.body.append(s); }"
    )
    for _ in range(200):  # what the console says comes when it comes
        if tab.wrong:
            break
        tab.page.wait_for_timeout(20)
    assert len(tab.wrong) == 1
    assert "Content Security Policy" in tab.wrong.pop()
    tab.close()


def test_everything_can_be_reached_with_a_keyboard(browser: Any, live: Any):
    url, key, _, ada = live
    tab = Tab(browser, url)
    page = tab.page
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/#main")
    page.goto("/sign-in")
    _tab_to(page, "key")
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/")
    _tab_to_text(page, "Scaled")
    page.keyboard.press("Enter")
    page.wait_for_url("**/problems/*")
    _tab_to(page, "source")
    page.keyboard.insert_text(SOURCE)
    _tab_to(page, "label")
    page.keyboard.type("typed")
    _tab_to_text(page, "Hand in")
    # Whoever uses a keyboard sees where they are.
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/submissions/*")
    _tab_to_text(page, "Cancel")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="cancelled").wait_for()
    assert ada.get("/v1/submissions").json()["items"][0]["label"] == "typed"
    tab.close()


def _tab_to(page: Any, element: str) -> None:
    _tab_until(page, f"document.activeElement.id === {json.dumps(element)}", element)


def _tab_to_text(page: Any, text: str) -> None:
    _tab_until(page, f"document.activeElement.textContent.trim() === {json.dumps(text)}", text)


def _tab_until(page: Any, condition: str, what: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate(condition):
            return
    pytest.fail(f"the Tab key does not lead to {what}")


def test_a_phone_shows_every_page_without_scrolling_sideways(browser: Any, live: Any):
    url, key, agent, ada = live
    long = "x" * 90
    one = ada.submit(source=f"# {'long line ' * 60}\n{SOURCE}", label=long)
    work = agent.work()
    agent.report(work, message=f"{long * 4}", device_name=long * 2)
    waiting = ada.submit(label=long)
    tab = Tab(browser, url, viewport={"width": 360, "height": 700}, is_mobile=True, has_touch=True)
    tab.sign_in(key)
    for path in (
        *("/", "/problems/scaled", "/leaderboard/scaled", "/submissions", "/sign-in"),
        *(f"/submissions/{one}", f"/submissions/{waiting}", "/leaderboard/scaled?device=none"),
    ):
        tab.page.goto(path)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360, path
        small = tab.page.evaluate(
            "[...document.querySelectorAll('button, select, input:not([type=hidden]), nav a')]"
            ".filter((one) => one.getBoundingClientRect().height < 36).map((one) => one.outerHTML)"
        )
        assert small == [], f"{path}: too small for a thumb"
    tab.close()
