"""A batch summed up, and shown as a page that holds whatever is in it."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from batch_fakes import report

from harness.batch.inputs import BadInput
from harness.batch.page import page
from harness.batch.store import Result
from harness.batch.summary import GroupSummary, Summary, summarize
from harness.batch.svg import COLOURS, curve, escape
from harness.build.diagnostics import Diagnostic
from harness.report import BuildInfo, Report, Stage, Verdict

WRONG = Verdict.WRONG_ANSWER


def result(
    identifier: str,
    graded: Report,
    problem: str = "softmax",
    level: int | None = None,
    attempt: int = 1,
    same_as: str | None = None,
) -> Result:
    return Result(
        id=identifier, problem=problem, level=level, attempt=attempt, key=identifier, same_as=same_as, report=graded
    )


def right(speedup: float) -> Report:
    return report(speedup=speedup)


def group(summary: Summary, name: str) -> GroupSummary:
    (found,) = [each for each in summary.groups if each.name == name]
    return found


def compile_error(message: str, line: int) -> Report:
    diagnostic = Diagnostic(severity="error", message=message, file="x.cu", line=line, column=None)
    return report(Verdict.COMPILE_ERROR, "build.failed", build=BuildInfo(diagnostics=[diagnostic]))


def test_a_batch_by_hand() -> None:
    wrong = report(WRONG, "output.values")
    summary = summarize(
        [
            result("a", right(4.0), "one", 1),
            result("b", right(1.0), "one", 1),
            result("c", wrong, "one", 1),
            result("d", wrong, "one", 1),
            result("e", right(2.0), "two", 2),
            result("f", report(Verdict.JUDGE_ERROR, "judge.lost"), "two", 2),
        ]
    )
    assert [(each.kind, each.name) for each in summary.groups] == [
        ("all", "all"), ("level", "level 1"), ("level", "level 2"), ("problem", "one"), ("problem", "two"),
    ]  # fmt: skip
    every, one, two = group(summary, "all"), group(summary, "one"), group(summary, "two")
    assert (every.submissions, every.right, every.problems) == (5, 3, 2)
    assert every.verdicts == {"accepted": 3, "wrong_answer": 2, "judge_error": 1}
    assert (one.fast_p["0"], one.fast_p["1"], one.fast_p["2"]) == (0.5, 0.25, 0.25)
    assert every.fast_p["1"] == pytest.approx(2 / 5)
    assert one.pass_at_k == {"1": 0.5, "2": pytest.approx(5 / 6)}
    assert every.pass_at_k == {"1": pytest.approx((0.5 + 1) / 2), "2": pytest.approx(5 / 6)}
    assert one.speedup == pytest.approx(2.0)
    assert every.speedup == pytest.approx(2.0)
    assert two.submissions == 1  # our failure says nothing of a submission
    assert group(summary, "level 1").speedups == [1.0, 4.0]


def unsure(speedup: float, low: float, high: float) -> Report:
    graded = report(speedup=speedup)
    assert graded.timing is not None
    return graded.model_copy(update={"timing": graded.timing.model_copy(update={"speedup_ci95": (low, high)})})


def test_what_is_not_sure_is_not_counted_as_sure() -> None:
    summary = summarize(
        [
            result("copy", unsure(2.72, 0.0101, 92.0), "one"),
            result("fast", unsure(3.0, 2.9, 3.1), "two"),
            result("unknown", unsure(2.0, 0.0, math.inf), "three"),
        ]
    )
    every, one, two, three = (group(summary, name) for name in ("all", "one", "two", "three"))
    assert (one.fast_p["1"], one.fast_p_surely["1"], one.fast_p_surely["0"]) == (1.0, 0.0, 1.0)
    assert (two.fast_p_surely["1"], two.fast_p_surely["2"], two.fast_p_surely["4"]) == (1.0, 1.0, 0.0)
    assert every.fast_p["1"] == 1.0
    assert every.fast_p_surely["1"] == pytest.approx(1 / 3)
    assert one.speedup_ci95 == (pytest.approx(0.0101), pytest.approx(92.0))
    assert two.speedup_ci95 == (pytest.approx(2.9), pytest.approx(3.1))
    assert every.speedup_ci95 == three.speedup_ci95 == (0.0, math.inf)


def test_trials_do_not_narrow_what_a_machine_spoils() -> None:
    trials = [result("a", unsure(2.0, 1.0, 4.0), attempt=attempt) for attempt in (1, 2)]
    assert group(summarize(trials), "all").speedup_ci95 == (pytest.approx(1.0), pytest.approx(4.0))


def test_a_submission_is_right_when_all_its_gradings_are() -> None:
    wrong = report(WRONG, "output.values")
    results = [
        result("steady", right(1.0)), result("steady", right(4.0), attempt=2),
        result("wavering", right(9.0)), result("wavering", wrong, attempt=2),
    ]  # fmt: skip
    every = group(summarize(results), "all")
    assert (every.submissions, every.right, every.speedups) == (2, 1, [pytest.approx(2.0)])


def test_failures_are_grouped_by_reason_and_first_diagnostic_wherever_it_stands() -> None:
    summary = summarize(
        [
            result("a", compile_error("expected a ';'", 3)),
            result("b", compile_error("identifier undefined", 3)),
            result("c", compile_error("expected  a\n';'", 70), "other"),
            result("d", report(WRONG, "output.values", message="differs in 3 elements")),
            result("e", right(1.0)),
        ]
    )
    found = [(each.gradings, each.reason, each.diagnostic, each.problems) for each in summary.failures]
    assert found == [
        (2, "build.failed", "expected a ';'", ["other", "softmax"]),
        (1, "build.failed", "identifier undefined", ["softmax"]),
        (1, "output.values", "", ["softmax"]),
    ]
    assert summary.failures[0].examples == ["a", "c"]


def test_stages_count_each_grading_once_and_name_the_slowest() -> None:
    def staged(build: float, check: float) -> Report:
        return report(stages=[Stage(name="build", seconds=build), Stage(name="check", seconds=check)])

    shared = staged(100.0, 1.0)
    summary = summarize(
        [result("a", staged(1.0, 9.0)), result("b", staged(3.0, 1.0)), result("c", shared, same_as="a")]
    )
    check, build = summary.stages
    assert (check.name, check.seconds, check.mean_s, check.slowest[0]) == ("check", 10.0, 5.0, ("a", 9.0))
    assert (build.name, build.seconds, build.slowest) == ("build", 4.0, [("b", 3.0), ("a", 1.0)])
    assert (summary.gradings, summary.results) == (2, 3)


def test_nothing_is_summed_up_as_nothing() -> None:
    summary = summarize([])
    assert (summary.results, summary.failures, summary.stages) == (0, [], [])
    assert summary.groups[0].fast_p == {}
    assert "0 submissions" in page(summary, "empty")


class Strict(HTMLParser):
    """What a browser would see: tags, what they load, and whether all that opens closes."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        loading = [(name, value or "") for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.loads += [name for name, value in loading if not value.startswith("#")]  # a place on the page itself
        self.loads += [name for name, _ in attrs if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_escapes_everything_and_loads_nothing() -> None:
    evil = "\"><script>alert(1)</script><img src=x onerror='y'>&\u202e\x00"
    summary = summarize(
        [
            result(evil, right(3.0), evil, 1),
            result(evil + "2", report(WRONG, "output.values", message=evil), evil, 1),
            result(evil + "3", compile_error(evil, 1), "other" + evil, 2),
        ]
    )
    text = page(summary, evil, [BadInput(evil, evil)])
    seen = Strict()
    seen.feed(text)
    assert seen.open == []
    assert not seen.tags & {"script", "img", "link", "iframe", "object"}
    assert seen.loads == []
    assert not re.search(r"https?://", text)
    assert "\u202e" not in text
    (main,) = re.findall(r"<main>.*</main>", text, re.DOTALL)
    ElementTree.fromstring(main)
    # The curve is a drawing within one; the others are a drawing for each problem, and the axis.
    assert len(re.findall("<svg", text)) == 2 + 2 + 2


def test_the_curve_falls_from_the_share_right_to_nothing() -> None:
    (points,) = re.findall(r'points="([^"]*)"', curve([0.5, 2.0, 2.0], 4))
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights == sorted(heights)  # downwards on a screen
    assert heights[0] == pytest.approx(190 - 180 * 0.75)
    assert heights[-1] == pytest.approx(190)


def test_every_verdict_has_a_colour() -> None:
    assert set(COLOURS) == set(Verdict)


def test_escape() -> None:
    assert escape("<a b='c' d=\"e\">&\x1b") == "&lt;a b=&#x27;c&#x27; d=&quot;e&quot;&gt;&amp;?"
