"""The picture of a grading that several workloads rank: a row for each of them, and one for their mean.

    name | every sample, the median's interval | floor, submission and reference on one scale | speedup, its interval
    ...
    mean |         the mean's interval         |                ... of the means              |        ...

A row's samples have a scale of their own, since a percent of them counts; the other columns have one for all rows.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.clock.plot_parts import CANDIDATE, FAINT, REFERENCE, SHOWN_SHARE, in_unit, title
from harness.clock.stats import SAME_WITHIN
from harness.report import RankedScore, Report, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""More would be a file that nobody can look at; the mean is of all of them, and the picture says so."""
_WIDTH, _HEAD, _ROW, _FOOT = 12.0, 1.05, 0.78, 0.7
"""Inches."""
_NAMES, _STRIP, _TIMES, _SPEEDUP = (0.15, 1.65), (1.9, 6.0), (6.4, 9.1), (9.5, 11.8)
"""The columns, from and to, inches."""
_GREY = "#555555"


@dataclass(frozen=True)
class _Row:
    """What one line of the picture shows. Times are in microseconds."""

    id: str
    name: str
    time_us: float
    interval_us: tuple[float, float]
    reference_us: float
    floor_us: float | None
    speedup: float
    speedup_ci95: tuple[float, float]
    samples_us: Sequence[float] = ()

    @property
    def known(self) -> bool:
        return math.isfinite(self.interval_us[1])


def fill_several(figure: Figure, report: Report) -> None:
    """Draw all of it. The figure gets its size here."""
    timed = [(each.name, each.timing) for each in report.workloads if each.timing is not None]
    rows = [_of(str(number), name, timing) for number, (name, timing) in enumerate(timed[:MOST_ROWS])]
    if report.ranking is not None:
        rows.append(_mean(report.ranking))
    height = _HEAD + _ROW * len(rows) + _FOOT
    figure.set_size_inches(_WIDTH, height)
    bottom = _FOOT / height

    def axes(column: tuple[float, float], low: float, high: float) -> Axes:
        return figure.add_axes((column[0] / _WIDTH, low, (column[1] - column[0]) / _WIDTH, high - low))

    for place, row in enumerate(rows):
        top = 1 - (_HEAD + _ROW * place) / height
        _name(figure, row, top - 0.5 * _ROW / height)
        _samples(axes(_STRIP, top - 0.68 * _ROW / height, top - 0.24 * _ROW / height), row)
    whole = 1 - _HEAD / height
    _times(axes(_TIMES, bottom, whole), rows)
    _speedups(axes(_SPEEDUP, bottom, whole), rows)
    figure.text(0.5, 1 - 0.25 / height, title(report), ha="center", va="center", fontsize=12, parse_math=False)
    figure.text(0.5, 1 - 0.52 / height, _said(report, len(timed)), ha="center", va="center", color=_GREY)


def _of(identity: str, name: str, timing: Timing) -> _Row:
    return _Row(
        identity, name, timing.candidate.median_us, timing.candidate.ci95_us, timing.reference.median_us,
        timing.floor_us, timing.speedup, timing.speedup_ci95, timing.candidate.samples_us,
    )  # fmt: skip


def _mean(score: RankedScore) -> _Row:
    """The mean of the floors is its share of the mean of the times; the reference's, that times the speedup."""
    floor = None if score.fraction_of_floor is None else score.fraction_of_floor * score.time_us
    return _Row(
        "mean", score.by.replace("_", " "), score.time_us, score.time_ci95_us, score.speedup * score.time_us,
        floor, score.speedup, score.speedup_ci95,
    )  # fmt: skip


def _said(report: Report, timed: int) -> str:
    if report.ranking is None:
        return f"{timed} of {len(report.workloads)} workloads were timed, so there is no mean of them"
    low, high = report.ranking.speedup_ci95
    interval = f"95 % in {low:.4g} to {high:.4g}" if math.isfinite(high) else "interval unknown"
    words = (
        f"{report.ranking.by.replace('_', ' ')} of {timed} workloads: {report.ranking.speedup:.4g} times the "
        f"reference's speed, {interval}: {report.ranking.comparison}"
    )
    return words if timed <= MOST_ROWS else f"{words}; the first {MOST_ROWS} are drawn"


def _name(figure: Figure, row: _Row, middle: float) -> None:
    printable = "".join(each if each.isprintable() else "?" for each in row.name)
    lines = textwrap.wrap(printable, 21, max_lines=3, placeholder="...") or ["?"]
    weight = "bold" if row.id == "mean" else "normal"
    figure.text(
        _NAMES[1] / _WIDTH, middle, "\n".join(lines), ha="right", va="center", weight=weight, parse_math=False,
        gid=f"name-{row.id}",
    )  # fmt: skip


def _samples(axes: Axes, row: _Row) -> None:
    """Along the time, the first call at the top."""
    divisor, name = in_unit(row.time_us)
    values = [sample / divisor for sample in row.samples_us]
    low, high = (end / divisor for end in row.interval_us)
    shown = sorted(values)[: math.ceil(SHOWN_SHARE * len(values))]
    ends = [row.time_us / divisor, *shown, *([low, high] if row.known else [])]
    left, right = min(ends), max(ends)
    margin = 0.06 * (right - left) or 0.01 * right or 1.0
    floor = None if row.floor_us is None else row.floor_us / divisor
    if floor is not None and left - 1.5 * (right - left) <= floor <= right:
        left = min(left, floor)
    left, right = max(0.0, left - margin), right + margin
    if values:
        axes.plot(values, range(len(values)), ".", color=CANDIDATE, markersize=3, alpha=0.7, gid=f"samples-{row.id}")
        axes.set_ylim(len(values), -1)
    if row.known:
        axes.axvspan(low, high, color=CANDIDATE, alpha=0.25, linewidth=0, gid=f"interval-{row.id}")
    axes.axvline(row.time_us / divisor, color=CANDIDATE, linewidth=1.2)
    axes.set_xlim(left, right)
    if floor is not None:
        _floor(axes, row.id, floor, name, left, right)
    if above := [value for value in values if value > right]:
        more = f"{len(above)} more up to {max(above):.4g} {name}"
        axes.annotate(more, (1, 1.04), xycoords="axes fraction", ha="right", va="bottom", fontsize=7, color=_GREY)
    interval = f"95 % in {low:.5g} to {high:.5g}" if row.known else "interval unknown"
    axes.set_title(f"{row.time_us / divisor:.5g} {name}, {interval}", loc="left", fontsize=8, pad=2)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=7, pad=1, length=2)
    axes.locator_params(axis="x", nbins=6)


def _floor(axes: Axes, identity: str, floor: float, name: str, left: float, right: float) -> None:
    if left <= floor <= right:
        axes.axvline(floor, color="black", linewidth=1, linestyle="--", gid=f"floor-{identity}")
        axes.annotate("floor", (floor, 0.06), (2, 0), ("data", "axes fraction"), "offset points", fontsize=7)
        return
    words, place, side = (f"← floor {floor:.4g} {name}", 0.0, "left") if floor < left else (
        f"floor {floor:.4g} {name} →", 1.0, "right",
    )  # fmt: skip
    axes.annotate(words, (place, 0.06), xycoords="axes fraction", ha=side, fontsize=7, gid=f"floor-{identity}")


def _times(axes: Axes, rows: Sequence[_Row]) -> None:
    """From the floor over the submission to the reference, all rows on one scale."""
    _lay_out(axes, rows)
    values = [us for row in rows for us in (row.time_us, row.reference_us, row.floor_us) if us]
    if values and max(values) / min(values) > 5:
        axes.set_xscale("log")
    labels: set[str] = set()
    for place, row in enumerate(rows):
        known = [us for us in (row.floor_us, row.time_us, row.reference_us) if us]
        axes.plot([min(known, default=0), max(known, default=0)], [place] * 2, color=FAINT, linewidth=1, alpha=0.6)
        # The reference is a ring and the floor lies on top: often two of them are in one place.
        for us, mark, size, colour, what in (
            (row.reference_us, "o", 8, REFERENCE, "reference"),
            (row.time_us, "D" if row.id == "mean" else "o", 5, CANDIDATE, "submission"),
            (row.floor_us, "|", 14, "black", "floor"),
        ):
            if us:
                label = None if what in labels else what
                labels.add(what)
                axes.plot(
                    [us], [place], mark, color=colour, label=label, markersize=size, markeredgewidth=1.8,
                    markerfacecolor="none" if what == "reference" else colour, linestyle="none",
                    gid=f"{what}-time-{row.id}",
                )  # fmt: skip
        if row.floor_us and row.time_us:
            share = f"{100 * row.floor_us / row.time_us:.3g} % of floor"
            axes.annotate(share, (0.99, place - 0.36), xycoords=("axes fraction", "data"), ha="right", va="center",
                          fontsize=7, color=_GREY)  # fmt: skip
    if labels:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False, columnspacing=1)
    axes.xaxis.set_major_formatter(lambda us, _: "0" if us == 0 else "{:.4g} {}".format(*_in_words(us)))
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("time of a call")


def _speedups(axes: Axes, rows: Sequence[_Row]) -> None:
    _lay_out(axes, rows)
    axes.axvspan(1 - SAME_WITHIN, 1 + SAME_WITHIN, color=FAINT, alpha=0.3, linewidth=0)
    axes.axvline(1, color=FAINT, linewidth=1)
    ends = [1.0]
    for place, row in enumerate(rows):
        low, high = row.speedup_ci95
        if not math.isfinite(high) or not row.speedup > 0:
            words = "too few samples for an interval"
            axes.annotate(words, (0.5, place), xycoords=("axes fraction", "data"), ha="center", va="center", fontsize=7)
            continue
        ends += [low, high]
        errors = [[max(0.0, row.speedup - low)], [max(0.0, high - row.speedup)]]
        axes.errorbar(
            [row.speedup], [place], xerr=errors, fmt="D" if row.id == "mean" else "o", color=CANDIDATE, markersize=5,
            capsize=4, gid=f"speedup-{row.id}",
        )  # fmt: skip
        words = f"{row.speedup:.4g} ({low:.4g} to {high:.4g})"
        axes.annotate(words, (0.99, place - 0.36), xycoords=("axes fraction", "data"), ha="right", va="center",
                      fontsize=7, weight="bold" if row.id == "mean" else "normal")  # fmt: skip
    if max(ends) / max(min(ends), 1e-12) > 5:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda speedup, _: f"{speedup:.4g}")
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("speedup over the reference")


def _in_words(us: float) -> tuple[float, str]:
    divisor, name = in_unit(us)
    return us / divisor, name


def _lay_out(axes: Axes, rows: Sequence[_Row]) -> None:
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=FAINT, alpha=0.25, linewidth=0.6)
    axes.margins(x=0.08)
    for place in range(1, len(rows), 2):
        axes.axhspan(place - 0.5, place + 0.5, color=FAINT, alpha=0.08, linewidth=0)
    if rows and rows[-1].id == "mean":
        axes.axhline(len(rows) - 1.5, color="black", linewidth=0.8)
