"""The page of a batch in a real browser: on a phone, in the dark, with the keyboard, with long names."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_fakes import report

from harness.batch.inputs import BadInput
from harness.batch.page import page
from harness.batch.store import Result
from harness.batch.summary import summarize
from harness.report import Report, Stage, Verdict

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on PATH: apt-get install chromium")

LONG = "gqa_paged_decode_h32_kv8_d128_ps1_" * 6
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch of sixty problems, some of them with names that don't fit, every verdict among the results."""
    draw = random.Random(1)
    verdicts = list(Verdict)

    def graded(number: int) -> Report:
        stages = [Stage(name=name, seconds=draw.random()) for name in ("build", "check", "time")]
        if number % 3:
            return report(speedup=2 ** draw.gauss(0, 2), stages=stages)
        verdict = verdicts[number // 3 % len(verdicts)]
        return report(verdict, "made.up", message=LONG, stages=stages)

    names = [LONG, "selective_scan", *(f"{number}_Conv2d_ReLU_BiasAdd" for number in range(58))]
    results = [
        Result(id=f"{LONG}_{number}", problem=names[number % 60], level=1 + number % 60 % 2, attempt=1,
               key=str(number), same_as=None, report=graded(number))
        for number in range(240)
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "batch.html"
    path.write_text(page(summarize(results), f"Batch {LONG}", [BadInput(LONG, LONG)]))
    return path


@pytest.fixture
def tab(browser: Any, written: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, opened as the test's parameter says."""
    opened = browser.new_page(**request.param)
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(written.as_uri())
    yield opened
    opened.close()
    assert said == []


def until(tab: Any, expression: str) -> None:
    """Playwright's own waiting would run a script on the page, which the page allows nobody."""
    deadline = time.monotonic() + 30
    while not tab.evaluate(expression):
        assert time.monotonic() < deadline, expression
        tab.wait_for_timeout(20)


EVERYWHERE = pytest.mark.parametrize(
    "tab",
    [
        {"viewport": size, "color_scheme": scheme}
        for size, scheme in ((PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark"))
    ],
    indirect=True,
)

CONTRAST = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parts(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const least = {};
  for (const element of document.querySelectorAll("h1, h2, p, a, dt, dd, th, td, small, .row span, svg text")) {
    const style = getComputedStyle(element);
    const own = luminance(parts(element instanceof SVGElement ? style.fill : style.color));
    const other = luminance(behind(element));
    const ratio = (Math.max(own, other) + .05) / (Math.min(own, other) + .05);
    least[element.tagName] = Math.min(least[element.tagName] ?? 99, ratio);
  }
  return least;
}"""


@EVERYWHERE
def test_it_fits_and_can_be_read(tab: Any) -> None:
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert min(tab.evaluate(CONTRAST).values()) > 4.5  # as WCAG asks for
    # Names are whole words of a line, not a column of letters; letters in drawings keep their size.
    assert tab.evaluate("Math.min(...[...document.querySelectorAll('tbody th')].map(e => e.clientWidth))") >= 100
    drawn = "Math.min(...[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height))"
    assert tab.evaluate(drawn) >= 12
    assert tab.evaluate("Math.max(...[...document.querySelectorAll('thead')].map(e => e.clientHeight))") < 60
    # A bar for each problem ends where the page does.
    ends = "[...document.querySelectorAll('.row rect:last-of-type')].map(e => e.getBoundingClientRect().right)"
    found = tab.evaluate(ends)
    assert len(found) == 60
    assert max(found) <= tab.viewport_size["width"]
    assert max(found) - min(found) < 1


@EVERYWHERE
def test_every_verdict_s_colour_stands_out_from_the_page(tab: Any) -> None:
    colours = tab.evaluate(
        "[...new Set([...document.querySelectorAll('.row rect')].map(e => getComputedStyle(e).fill))]"
    )
    assert len(colours) == len(Verdict)
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") not in colours


@pytest.mark.parametrize("tab", [{"viewport": PHONE}], indirect=True)
def test_with_the_keyboard_every_part_is_reached_and_every_table_scrolled(tab: Any) -> None:
    reached: list[str] = []
    for _ in range(30):
        tab.keyboard.press("Tab")
        words = tab.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent")
        if words in reached or tab.evaluate("document.activeElement === document.body"):
            break
        reached.append(words)
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    links = ["Problems", "Verdicts", "Right and faster than p times the reference", "Speedups", "What failed"]
    assert reached[:5] == links
    assert reached[7:] == ["Results by problem", "Ways of failing", "Seconds by stage", "Inputs that were not used"]
    table = tab.locator("[aria-label='Results by problem']")
    table.focus()
    for _ in range(8):
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowDown")
    until(tab, "document.activeElement.scrollLeft > 100 && document.activeElement.scrollTop > 100")
    # The names and the heads stay.
    box, name = table.bounding_box(), tab.locator("tbody th").first.bounding_box()
    assert abs(name["x"] - box["x"]) < 3
    assert abs(tab.locator("thead th").first.bounding_box()["y"] - box["y"]) < 3
    tab.locator("nav a", has_text="Speedups").press("Enter")
    until(tab, "document.querySelector(':target')?.textContent === 'Speedups'")
