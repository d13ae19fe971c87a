"""What pictures of times have in common: colours, words and units."""

from __future__ import annotations

from harness.report import Report

CANDIDATE, REFERENCE, FAINT = "#0072b2", "#d55e00", "#999999"
"""Of Okabe and Ito's palette, which people who confuse red and green can tell apart."""
SHOWN_SHARE = 0.98
"""Of the samples: the slowest few would press the rest into a line, so they are counted instead."""


def title(report: Report) -> str:
    """What was graded on what, and the verdict, in one line of printable characters."""
    problem = "" if report.problem is None else f" on {report.problem.id} ({report.problem.workload})"
    device = "" if report.device is None else f", {report.device.name}"
    words = f"{report.submission.name}{problem}{device}: {report.verdict.value}"
    return "".join(each if each.isprintable() else "?" for each in words)[:160]


def in_unit(us: float) -> tuple[float, str]:
    """Microseconds of the unit that suits a time, and its name."""
    return next(((size, unit) for size, unit in ((1e6, "s"), (1e3, "ms")) if us >= size), (1.0, "µs"))
