"""The picture of several ranking workloads, read back from its SVG; made from reports alone."""

from __future__ import annotations

import math
import struct
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import timings

from harness.clock.plot import PlotError, has_times, write_plot
from harness.clock.plot_several import MOST_ROWS
from harness.clock.several import ranked
from harness.load.spec import Mean
from harness.report import ProblemInfo, Reason, Report, SubmissionInfo, Timing, Verdict, WorkloadResult

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"


def timing(candidate_us: float, reference_us: float, floor_us: float | None = None, **other: Any) -> Timing:
    made = timings.timing(candidate_us, reference_us, seed=1, **other)
    share = None if floor_us is None else floor_us / made.candidate.median_us
    return made.model_copy(update={"floor_us": floor_us, "fraction_of_floor": share})


def report(workloads: dict[str, Timing | None], by: Mean = "geometric_mean") -> Report:
    known = [each for each in workloads.values() if each is not None]
    return Report(
        harness_version="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        verdict=Verdict.ACCEPTED,
        reason=Reason(code="grade.accepted", message=""),
        problem=ProblemInfo(id="scan", version="0", workload="ranking"),
        submission=SubmissionInfo(path=None, name="scan.py", sha256="0"),
        workloads=[WorkloadResult(name=name, timing=each) for name, each in workloads.items()],
        ranking=ranked(known, by) if known and len(known) == len(workloads) else None,
    )


SMALL, LARGE = timing(5.0, 90.0, 4.8), timing(1800.0, 21_000.0, 60.0)
TWO = report({"small": SMALL, "large": LARGE})


def drawn(found: Report, folder: Path) -> ET.Element:
    write_plot(found, folder / "plot.svg")
    return ET.parse(folder / "plot.svg").getroot()


def ids(root: ET.Element) -> set[str]:
    return {found for each in root.iter() if (found := each.get("id"))}


def marks(root: ET.Element, name: str) -> list[tuple[float, float]]:
    """Where the marks of one group are."""
    (found,) = [each for each in root.iter() if each.get("id") == name]
    return [(float(each.get("x", "nan")), float(each.get("y", "nan"))) for each in found.iter(f"{SVG}use")]


def words(root: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_every_workload_has_a_row_with_its_samples_and_its_interval(tmp_path: Path) -> None:
    root = drawn(TWO, tmp_path)
    assert {"samples-0", "interval-0", "samples-1", "interval-1", "interval-mean"} <= ids(root)
    for number, each in enumerate((SMALL, LARGE)):
        places = marks(root, f"samples-{number}")
        assert len(places) == len(each.candidate.samples_us)
        # The picture's order along the time is that of the samples.
        by_time = sorted(range(len(places)), key=lambda sample: each.candidate.samples_us[sample])
        assert [places[sample][0] for sample in by_time] == sorted(x for x, _ in places)
    said = words(root)
    low, high = SMALL.candidate.ci95_us
    assert f"{SMALL.candidate.median_us:.5g} µs, 95 % in {low:.5g} to {high:.5g}" in said
    assert {"small", "large", "geometric mean"} <= set(said)


@pytest.mark.parametrize("by", ["geometric_mean", "mean"])
def test_the_mean_has_a_row_with_its_interval(tmp_path: Path, by: Mean) -> None:
    found = report({"small": SMALL, "large": LARGE}, by)
    assert found.ranking is not None
    root = drawn(found, tmp_path)
    low, high = found.ranking.speedup_ci95
    assert f"{found.ranking.speedup:.4g} ({low:.4g} to {high:.4g})" in words(root)
    head = f"{by.replace('_', ' ')} of 2 workloads: {found.ranking.speedup:.4g} times the reference's speed, 95 % in"
    assert any(each.startswith(head) for each in words(root))
    low, high = found.ranking.time_ci95_us
    assert any(each.endswith(f", 95 % in {low:.5g} to {high:.5g}") for each in words(root))


def test_floor_submission_and_reference_are_on_one_scale(tmp_path: Path) -> None:
    root = drawn(TWO, tmp_path)
    for row in ("0", "1", "mean"):
        floor, ours, theirs = (marks(root, f"{what}-time-{row}")[0] for what in ("floor", "submission", "reference"))
        assert floor[0] < ours[0] < theirs[0]
        assert floor[1] == ours[1] == theirs[1]
    # Logarithmic: equal ratios are equal distances.
    a, b = marks(root, "submission-time-0")[0][0], marks(root, "reference-time-0")[0][0]
    c, d = marks(root, "submission-time-1")[0][0], marks(root, "reference-time-1")[0][0]
    expected = math.log(LARGE.speedup) / math.log(SMALL.speedup)
    assert (d - c) / (b - a) == pytest.approx(expected, rel=1e-3)
    for each in (SMALL, LARGE):
        assert each.fraction_of_floor is not None
        assert f"{100 * each.fraction_of_floor:.3g} % of floor" in words(root)


def test_a_floor_far_away_is_named_and_a_near_one_drawn(tmp_path: Path) -> None:
    root = drawn(TWO, tmp_path)
    assert "← floor 0.06 ms" in words(root)
    assert "floor" in words(root)
    without = drawn(report({"small": timing(5.0, 90.0), "large": timing(1800.0, 21_000.0)}), tmp_path)
    assert not any(name.startswith("floor") for name in ids(without))


def test_a_workload_that_was_not_timed_leaves_the_others_and_no_mean(tmp_path: Path) -> None:
    root = drawn(report({"small": SMALL, "large": None}), tmp_path)
    assert "1 of 2 workloads were timed, so there is no mean of them" in words(root)
    assert "samples-0" in ids(root)
    assert not {"samples-1", "interval-mean"} & ids(root)


def test_where_none_was_timed_there_is_no_picture(tmp_path: Path) -> None:
    none = report({"small": None, "large": None})
    assert not has_times(none)
    with pytest.raises(PlotError, match="timed nothing"):
        write_plot(none, tmp_path / "plot.svg")


def test_too_few_samples_have_no_interval_and_say_so(tmp_path: Path) -> None:
    root = drawn(report({"small": SMALL, "once": timing(12.0, 13.0, blocks=1, calls=1)}), tmp_path)
    assert "interval-1" not in ids(root)
    assert any(each.endswith(" µs, interval unknown") for each in words(root))
    assert "too few samples for an interval" in words(root)


def test_names_are_text_and_long_ones_are_cut(tmp_path: Path) -> None:
    names = ["a$\\frac{b$<script>&\x1b[31m", "x" * 300, ""]
    found = report(dict.fromkeys(names, SMALL))
    root = drawn(found, tmp_path)
    assert any(each.startswith("a$\\frac{b$<script>&?") for each in words(root))
    assert max(len(each) for each in words(root) if set(each) <= {"x", "."}) <= 24
    write_plot(found, tmp_path / "plot.html")
    page = (tmp_path / "plot.html").read_text()
    assert "<script>" not in page
    assert page.count("<svg") == 1
    assert "<title>scan.py on scan (ranking): accepted</title>" in page
    assert 'id="samples-2"' in page


def size(path: Path) -> Sequence[int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">II", content[16:24])


def test_a_png_grows_with_the_workloads_up_to_a_limit(tmp_path: Path) -> None:
    write_plot(TWO, tmp_path / "two.png")
    write_plot(report({str(number): SMALL for number in range(4)}), tmp_path / "four.png")
    (width, two), (same, four) = size(tmp_path / "two.png"), size(tmp_path / "four.png")
    assert width == same
    assert two < four
    many = drawn(report({f"w{number}": SMALL for number in range(MOST_ROWS + 5)}), tmp_path)
    assert len([each for each in ids(many) if each.startswith("samples-")]) == MOST_ROWS
    assert any(each.endswith(f"the first {MOST_ROWS} are drawn") for each in words(many))
    assert "geometric mean" in words(many)


def test_the_same_report_gives_the_same_file(tmp_path: Path) -> None:
    write_plot(TWO, tmp_path / "one.svg")
    write_plot(TWO, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
