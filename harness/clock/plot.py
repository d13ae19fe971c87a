"""A picture of one grading's times, from its report alone: every sample, the intervals, and the roofline.

    Report  -->  figure  -->  FILE.png | FILE.svg | FILE.html (the same drawing in a page that needs nothing else)

Where several workloads rank, the figure is that of plot_several.py.

Drawn with matplotlib, which a grader does not need otherwise: it comes with `pip install 'kernel-harness[plot]'`.
"""

from __future__ import annotations

import contextlib
import html
import importlib.util
import io
import math
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.clock.plot_parts import CANDIDATE, FAINT, REFERENCE, SHOWN_SHARE, in_unit, title
from harness.clock.plot_several import fill_several
from harness.clock.stats import SAME_WITHIN
from harness.report import FloorReport, Measurement, Report, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "html")
_SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and read aloud
    "svg.hashsalt": "harness",  # the same report gives the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class PlotError(Exception):
    """No picture can be made. The message is plain: what is the matter, what to do."""


def check_target(target: str) -> None:
    """Find out that a picture can't be drawn or written before minutes are spent on what goes into it."""
    path = Path(target)
    if _format(path) not in FORMATS:
        raise PlotError(f"--plot {target}: name a file that ends in .png, .svg or .html.")
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir() or not folder.is_dir():
        raise PlotError(f"--plot {target} can't be written: name a file in a folder that exists.")
    if not os.access(folder, os.W_OK):
        raise PlotError(f"--plot {target} can't be written: no permission in {folder}; name another file.")
    if importlib.util.find_spec("matplotlib") is None:
        raise PlotError("--plot needs matplotlib, which is not installed: pip install 'kernel-harness[plot]'.")


def write_plot(report: Report, target: str | Path) -> None:
    """Draw the times of a report into a file, whole or not at all. PlotError where there are none."""
    check_target(str(target))
    if not has_times(report):
        raise PlotError("There is no picture of the times: this grading timed nothing.")
    content = _drawn(report, _format(Path(target)))
    final = os.path.realpath(target)
    temporary = f"{final}.{secrets.token_hex(4)}.part"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, final)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def has_times(report: Report) -> bool:
    """Whether there is something to draw."""
    return report.timing is not None or any(each.timing is not None for each in report.workloads)


def _format(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _drawn(report: Report, format_: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        # No pyplot: it keeps figures alive, and picks a window system by the environment.
        if report.timing is not None:
            figure = Figure(figsize=(10, 6.5), layout="constrained")
            _fill(figure, report, report.timing)
        else:
            figure = Figure()
            fill_several(figure, report)
        buffer = io.BytesIO()
        if format_ == "png":
            figure.savefig(buffer, format="png", dpi=150)
            return buffer.getvalue()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    if format_ == "svg":
        return buffer.getvalue()
    drawing = buffer.getvalue().decode()
    return _PAGE.format(title=html.escape(title(report)), drawing=drawing[drawing.index("<svg") :]).encode()


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light }}
body {{ margin: 1rem auto; max-width: 75rem; background: #fff; overflow-x: auto }}
svg {{ width: 100%; min-width: 46rem; height: auto }}
</style>
{drawing}
</html>
"""


def _fill(figure: Figure, report: Report, timing: Timing) -> None:
    floor = timing.floor
    grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
    _samples(figure.add_subplot(grid[0, 0]), timing.candidate, "submission", CANDIDATE, timing.floor_us)
    _samples(figure.add_subplot(grid[1, 0]), timing.reference, "reference", REFERENCE, None)
    _speedup(figure.add_subplot(grid[0, 1]), timing)
    axes = figure.add_subplot(grid[1, 1])
    if floor is None:
        axes.set_axis_off()
        _say(axes, "The problem states no floor, so there is no roofline.")
    else:
        _roofline(axes, floor, timing)
    # Names come from files: a $ in one is no mathematics.
    figure.suptitle(title(report), parse_math=False)


def _samples(axes: Axes, measured: Measurement, name: str, colour: str, floor_us: float | None) -> None:
    """Every sample in the order in which it was taken, blocks told apart, with the median and its interval."""
    divisor, unit = in_unit(measured.median_us)
    values = [sample / divisor for sample in measured.samples_us]
    low, high = (end / divisor for end in measured.ci95_us)
    known = [end for end in (low, high) if math.isfinite(high)]
    shown = sorted(values)[: math.ceil(SHOWN_SHARE * len(values))]
    bottom, top = min([*known, *shown], default=0.0), max([*known, *shown], default=1.0)
    axes.plot(range(1, len(values) + 1), values, ".", color=colour, markersize=4, gid=f"samples-{name}")
    _shade_blocks(axes, measured.block_sizes)
    if known:
        axes.axhspan(low, high, color=colour, alpha=0.25, linewidth=0, gid=f"interval-{name}")
        axes.axhline(measured.median_us / divisor, color=colour, linewidth=1)
    if floor_us is not None and floor_us / divisor > bottom / 2:
        axes.axhline(floor_us / divisor, color="black", linewidth=1, linestyle="--", gid="floor")
        axes.annotate("floor", (1, floor_us / divisor), fontsize=8, va="bottom")
        bottom = min(bottom, floor_us / divisor)
    margin = 0.08 * (top - bottom) or 0.01 * top or 1.0
    axes.set_ylim(max(0.0, bottom - margin), top + margin)
    above = [value for value in values if value > top + margin]
    if above:
        more = f"{len(above)} of {len(values)} samples are above, up to {max(above):.4g} {unit}"
        axes.annotate(more, (1, 1), xycoords="axes fraction", ha="right", va="top", fontsize=8, color=FAINT)
    interval = f"{low:.5g} to {high:.5g}" if known else "unknown"
    axes.set_title(f"{name}: {measured.median_us / divisor:.5g} {unit}, 95 % in {interval}", loc="left", fontsize=9)
    axes.set_xlabel("call, blocks shaded")
    axes.set_ylabel(unit)


def _shade_blocks(axes: Axes, sizes: Sequence[int]) -> None:
    start = 0.5
    for number, size in enumerate(sizes):
        if number % 2:
            axes.axvspan(start, start + size, color=FAINT, alpha=0.12, linewidth=0)
        start += size


def _speedup(axes: Axes, timing: Timing) -> None:
    """The interval of the speedup beside 1, and the band within which times count as the same."""
    low, high = timing.speedup_ci95
    if math.isinf(high):
        axes.set_axis_off()
        _say(axes, "Too few samples for an interval of the speedup.")
        return
    axes.axvspan(1 - SAME_WITHIN, 1 + SAME_WITHIN, color=FAINT, alpha=0.3, linewidth=0)
    axes.axvline(1, color=FAINT, linewidth=1)
    errors = [[max(0.0, timing.speedup - low)], [max(0.0, high - timing.speedup)]]
    axes.errorbar([timing.speedup], [0], xerr=errors, fmt="o", color=CANDIDATE, capsize=6, gid="speedup")
    if max(high, 1.0) / max(min(low, 1.0), 1e-12) > 5:
        axes.set_xscale("log")
    axes.set_yticks([])
    axes.set_ylim(-1, 1)
    axes.spines["left"].set_visible(False)
    words = f"{timing.speedup:.4g} times the reference's speed: {timing.comparison}"
    axes.set_title(f"{words}\n95 % in {low:.4g} to {high:.4g}", loc="left", fontsize=9)
    axes.set_xlabel("time of the reference / time of the submission")


def _roofline(axes: Axes, floor: FloorReport, timing: Timing) -> None:
    """Rate over intensity, for the operations that weigh most: Williams, Waterman and Patterson, CACM 52(4), 2009.

    What has to be done is what the floor says: time on the resource times the resource's peak. A problem that states
    bytes or operations alone has no intensity, and gets the share of the peak that was reached.
    """
    work = {name: us / 1e6 * floor.peaks[name] for name, us in floor.per_resource_us.items() if name in floor.peaks}
    operations = [name for name in work if name != "bytes" and work[name] > 0]
    if not operations or not work.get("bytes"):
        _share_of_peak(axes, floor, timing)
        return
    kind = max(operations, key=lambda name: floor.per_resource_us[name])
    intensity = work[kind] / work["bytes"]
    bandwidth, peak = floor.peaks["bytes"], floor.peaks[kind]
    ridge = peak / bandwidth
    edges = [min(intensity, ridge) / 8, ridge, max(intensity, ridge) * 8]
    axes.loglog(edges, [min(peak, edge * bandwidth) for edge in edges], color="black", linewidth=1, gid="roof")
    for measured, name, colour in (
        (timing.reference, "reference", REFERENCE),
        (timing.candidate, "submission", CANDIDATE),
    ):
        if measured.median_us > 0:
            rate = work[kind] / (measured.median_us / 1e6)
            axes.loglog([intensity], [rate], "o", color=colour, label=name, gid=f"roofline-{name}")
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    axes.set_title(_reached(timing, floor), loc="left", fontsize=9)
    axes.set_xlabel(f"{kind.replace('_', ' ')} for each byte")
    axes.set_ylabel(f"{kind.replace('_', ' ')} a second")


def _share_of_peak(axes: Axes, floor: FloorReport, timing: Timing) -> None:
    names, colours = ("reference", "submission"), (REFERENCE, CANDIDATE)
    shares = [
        100 * floor.us / measured.median_us if measured.median_us > 0 else 0.0
        for measured in (timing.reference, timing.candidate)
    ]
    for place, (name, share, colour) in enumerate(zip(names, shares, colours, strict=True)):
        axes.barh([place], [share], color=colour, gid=f"share-{name}")
    axes.axvline(100, color="black", linewidth=1, gid="roof")
    axes.set_yticks([0, 1], names)
    axes.set_xlim(0, max(105, *shares))
    axes.set_title(_reached(timing, floor), loc="left", fontsize=9)
    axes.set_xlabel(f"percent of the peak in {floor.bound_by.replace('_', ' ')}")


def _reached(timing: Timing, floor: FloorReport) -> str:
    share = "" if timing.fraction_of_floor is None else f", {100 * timing.fraction_of_floor:.3g} % of it reached"
    divisor, unit = in_unit(floor.us)
    return f"floor {floor.us / divisor:.4g} {unit} by {floor.bound_by.replace('_', ' ')}{share}"


def _say(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, ha="center", va="center", wrap=True, color=FAINT, transform=axes.transAxes)
