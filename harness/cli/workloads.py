"""Several workloads that rank together: what they come to, and a row for each."""

from __future__ import annotations

from rich.text import Text

from harness.cli import text
from harness.cli.sections import Row, row, with_interval
from harness.report import RankedScore, Report, WorkloadResult

MAX_WORKLOADS = 40


def workloads(report: Report, ascii_only: bool) -> list[Row]:
    """The score, then each workload; nothing for a report of one."""
    rows = _score(report.ranking, len(report.workloads), ascii_only) if report.ranking is not None else []
    rows += [_workload(each, ascii_only) for each in report.workloads[:MAX_WORKLOADS]]
    if len(report.workloads) > MAX_WORKLOADS:
        rows.append(row("", f"... and {len(report.workloads) - MAX_WORKLOADS} more workloads, in --json"))
    return rows


def _score(score: RankedScore, count: int, ascii_only: bool) -> list[Row]:
    times = text.durations(score.time_us, *score.time_ci95_us, ascii_only=ascii_only)
    mean = "geometric mean" if score.by == "geometric_mean" else "mean"
    rows = [
        with_interval("time", times, "bold", f": {mean} of {count}"),
        with_interval("speedup", text.ratios(score.speedup, *score.speedup_ci95), "bold", f": {score.comparison}"),
    ]
    if score.fraction_of_floor is not None:
        rows.append(row("floor", f"{text.share(float(f'{score.fraction_of_floor:.2g}'))} of it reached"))
    return rows


def _workload(result: WorkloadResult, ascii_only: bool) -> Row:
    label = text.one_line(result.name, 40)
    timing = result.timing
    if timing is None:
        compared = result.correctness
        right = compared is not None and all(leaf.ok for leaf in compared.leaves)
        words = "right, not timed" if right else "not compared" if compared is None else "wrong"
        return Row(label, Text(words, style="" if right else "dim" if compared is None else "red"))
    values = text.durations(timing.candidate.median_us, *timing.candidate.ci95_us, ascii_only=ascii_only)
    speedup, low, high = text.ratios(timing.speedup, *timing.speedup_ci95)
    more = f"; {speedup} ({low} to {high})"
    if timing.fraction_of_floor is not None:
        more += f", {text.share(float(f'{timing.fraction_of_floor:.2g}'))} of the floor"
    return with_interval(label, values, "", more)
