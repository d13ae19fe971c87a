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
    width = max((len(text.one_line(each.name, 40)) for each in report.workloads[:MAX_WORKLOADS]), default=0)
    rows += [
        Row(
            "" if number else "workloads",
            Text(f"{text.one_line(each.name, 40):<{width}}  ").append(_words(each, ascii_only)),
        )
        for number, each in enumerate(report.workloads[:MAX_WORKLOADS])
    ]
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


def _words(result: WorkloadResult, ascii_only: bool) -> Text:
    timing = result.timing
    if timing is None:
        compared = result.correctness
        right = compared is not None and all(leaf.ok for leaf in compared.leaves)
        words = "right, not timed" if right else "not compared" if compared is None else "wrong"
        return Text(words, style="" if right else "dim" if compared is None else "red")
    value, low, high = text.durations(timing.candidate.median_us, *timing.candidate.ci95_us, ascii_only=ascii_only)
    faster, least, most = text.ratios(timing.speedup, *timing.speedup_ci95)
    words = f"{value} ({low} to {high}), {faster} ({least} to {most})"
    if timing.fraction_of_floor is not None:
        words += f", {text.share(float(f'{timing.fraction_of_floor:.2g}'))} of the floor"
    return Text(words)
