"""What a picture shows, read back from its SVG; made from reports alone."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.clock.plot import PlotError, check_target, write_plot
from harness.report import (
    FloorReport,
    Measurement,
    ProblemInfo,
    Reason,
    Report,
    SubmissionInfo,
    Timing,
    Verdict,
)

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"


def measured(samples: list[float], interval: tuple[float, float], sizes: list[int]) -> Measurement:
    return Measurement(
        median_us=sorted(samples)[len(samples) // 2],
        ci95_us=interval,
        mean_us=sum(samples) / len(samples),
        min_us=min(samples),
        samples_us=samples,
        block_sizes=sizes,
        method="events",
    )


FLOOR = FloorReport(
    us=4.0,
    bound_by="bytes",
    way="any",
    per_resource_us={"bytes": 4.0, "fp32_flops": 1.0, "special_ops": 0.5},
    peaks={"bytes": 4e12, "fp32_flops": 5e13, "special_ops": 1e13},
    limit_us=3.6,
)


def report(name: str = "scan.py", timed: bool = True, **timing: Any) -> Report:
    times = Timing(
        **{
            "candidate": measured([5.0, 5.1, 4.9, 5.0, 5.2, 5.0], (4.95, 5.05), [3, 3]),
            "reference": measured([90.0, 91.0, 89.0], (88.0, 92.0), [1, 1, 1]),
            "speedup": 18.0,
            "speedup_ci95": (17.5, 18.4),
            "comparison": "faster",
            "stopped_because": "",
            **timing,
        }
    )
    return Report(
        harness_version="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        verdict=Verdict.ACCEPTED,
        reason=Reason(code="grade.accepted", message=""),
        problem=ProblemInfo(id="scan", version="0", workload="large"),
        submission=SubmissionInfo(path=None, name=name, sha256="0"),
        timing=times if timed else None,
    )


def drawn(found: Report, folder: Path) -> ET.Element:
    write_plot(found, folder / "plot.svg")
    return ET.parse(folder / "plot.svg").getroot()


def part(root: ET.Element, name: str) -> ET.Element:
    (found,) = [each for each in root.iter() if each.get("id") == name]
    return found


def has(root: ET.Element, name: str) -> bool:
    return any(each.get("id") == name for each in root.iter())


def words(root: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_every_sample_is_a_mark(tmp_path: Path) -> None:
    root = drawn(report(), tmp_path)
    assert len(list(part(root, "samples-submission").iter(f"{SVG}use"))) == 6
    assert len(list(part(root, "samples-reference").iter(f"{SVG}use"))) == 3


def test_times_and_intervals_are_said_in_words(tmp_path: Path) -> None:
    root = drawn(report(), tmp_path)
    assert "submission: 5 µs, 95 % in 4.95 to 5.05" in words(root)
    assert "reference: 90 µs, 95 % in 88 to 92" in words(root)
    assert "18 times the reference's speed: faster" in words(root)
    assert "scan.py on scan (large): accepted" in words(root)
    assert has(root, "interval-submission")


def test_the_roofline_takes_the_operations_that_weigh_most(tmp_path: Path) -> None:
    root = drawn(report(floor=FLOOR, floor_us=4.0, fraction_of_floor=0.8), tmp_path)
    assert "fp32 flops for each byte" in words(root)
    assert "floor 4 µs by bytes, 80 % of it reached" in words(root)
    assert has(root, "roofline-submission")
    assert has(root, "floor")


def test_a_floor_of_bytes_alone_is_a_share_of_the_peak(tmp_path: Path) -> None:
    only = FLOOR.model_copy(update={"per_resource_us": {"bytes": 4.0}})
    root = drawn(report(floor=only, floor_us=4.0, fraction_of_floor=0.8), tmp_path)
    assert "percent of the peak in bytes" in words(root)
    assert has(root, "share-submission")


def test_without_a_floor_that_is_said(tmp_path: Path) -> None:
    assert "The problem states no floor, so there is no roofline." in " ".join(words(drawn(report(), tmp_path)))


def test_spikes_are_counted_and_do_not_press_the_rest_flat(tmp_path: Path) -> None:
    samples = [5.0 + 0.001 * number for number in range(99)] + [4000.0]
    root = drawn(report(candidate=measured(samples, (5.0, 5.1), [50, 50])), tmp_path)
    assert "1 of 100 samples are above, up to 4000 µs" in words(root)


@pytest.mark.parametrize(
    "timing",
    [
        {"candidate": measured([5.0], (0.0, float("inf")), [1]), "speedup_ci95": (0.0, float("inf"))},
        {"candidate": measured([0.0, 0.0], (0.0, 0.0), [2]), "floor": FLOOR, "floor_us": 4.0},
        {"candidate": measured([5.0] * 4, (5.0, 5.0), [])},
        {"speedup": 0.001, "speedup_ci95": (0.0005, 0.002)},
        {"candidate": measured([2.5e6, 2.6e6], (2.4e6, 2.7e6), [1, 1])},
    ],
    ids=["one sample", "no time", "constant", "far slower", "seconds"],
)
def test_odd_reports_are_drawn_as_well(tmp_path: Path, timing: dict[str, Any]) -> None:
    assert words(drawn(report(**timing), tmp_path))


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    name = "a$\\frac{b$<script>&\x1b[31m.py"
    assert any(text.startswith("a$\\frac{b$<script>&?[31m.py") for text in words(drawn(report(name), tmp_path)))
    write_plot(report(name), tmp_path / "plot.html")
    page = (tmp_path / "plot.html").read_text()
    assert "<script>" not in page
    assert page.count("<svg") == 1
    assert page.startswith("<!doctype html>")


def test_a_png_is_a_png(tmp_path: Path) -> None:
    write_plot(report(floor=FLOOR), tmp_path / "plot.PNG")
    assert (tmp_path / "plot.PNG").read_bytes().startswith(b"\x89PNG")


def test_the_same_report_gives_the_same_file(tmp_path: Path) -> None:
    write_plot(report(), tmp_path / "one.svg")
    write_plot(report(), tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.svg", "two.svg"]


def test_a_grading_that_timed_nothing_has_no_picture(tmp_path: Path) -> None:
    with pytest.raises(PlotError, match="timed nothing"):
        write_plot(report(timed=False), tmp_path / "plot.svg")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["plot.pdf", "plot", "nowhere/plot.svg", "."])
def test_a_file_that_cant_be_is_refused_before_anything_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlotError, match="--plot"):
        check_target(target)


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PlotError, match=r"pip install 'kernel-harness\[plot\]'"):
        check_target(str(tmp_path / "plot.svg"))
