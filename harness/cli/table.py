"""The report as one table for a terminal: the verdict, why, then what matters for that verdict.

    Report --> sections of rows --> panel

Everything comes from the report: what this shows, `--json` holds too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from harness.cli import audits, profiles, sections, text, workloads
from harness.cli.sections import Row
from harness.report import Report, Verdict

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_STYLES = {
    Verdict.ACCEPTED: "bold green",
    Verdict.UNSTABLE: "bold yellow",
    Verdict.JUDGE_ERROR: "bold magenta",
}


def print_report(report: Report, console: Console) -> None:
    """Print the table of one grading."""
    console.print(_panel(report, console.options.ascii_only))


def _panel(report: Report, ascii_only: bool) -> RenderableType:
    style = _STYLES.get(report.verdict, "bold red")
    parts: list[RenderableType] = [
        Text.assemble((report.verdict.value.upper().replace("_", " "), style), f"  {_what(report)}"),
        Text(text.clean(report.reason.message, 2000)),
    ]
    for section in all_sections(report, ascii_only):
        if section:
            parts += [Text(""), _grid(section)]
    return Panel(Group(*parts), box=box.ASCII if ascii_only else box.ROUNDED, border_style=style.split()[-1])


def _what(report: Report) -> str:
    problem, name = report.problem, text.one_line(report.submission.name, 60)
    if report.mode == "compile":
        return f"{name}, compiled only"
    on = "" if problem is None else f" on {text.one_line(problem.id, 60)} ({text.one_line(problem.workload, 40)})"
    device = "" if report.device is None else f", {text.one_line(report.device.name, 60)}"
    part = {"check": ", checked only", "profile": ", profiled" if report.profile is not None else ", not profiled"}
    return f"{name}{on}{device}{part.get(report.mode, '')}"


def all_sections(report: Report, ascii_only: bool) -> list[list[Row]]:
    """All that is shown below the verdict and its reason; what matters first comes first."""
    if report.profile is not None:
        return [
            *profiles.sections_of(report.profile, ascii_only),
            [*sections.warnings(report), *sections.stages(report.stages), *sections.repeat(report)],
        ]
    failed = report.verdict is not Verdict.ACCEPTED
    reason = [sections.row("reason", report.reason.code)] if failed else []
    errors = sections.diagnostics(report.build) if failed or report.mode == "compile" else []
    figures = sections.timing(report.timing, ascii_only) if report.timing is not None else []
    figures += workloads.workloads(report, ascii_only)
    return [
        [*reason, *(sections.evidence(report) if failed else [])],
        errors,
        sections.leaves(report) if failed else figures,
        figures if failed else sections.leaves(report),
        audits.audit(report.audit, ascii_only) if report.audit is not None else [],
        sections.printed(report.log) if failed else [],
        [
            *sections.warnings(report),
            *sections.notes(report),
            *sections.build(report.build),
            *sections.stages(report.stages),
            *sections.repeat(report),
        ],
    ]


def _grid(rows: list[Row]) -> Table:
    grid = Table.grid(padding=(0, 2), expand=True)
    # All sections share one width for the labels, so that their words line up.
    grid.add_column(width=10, style="bold", overflow="fold")
    grid.add_column(ratio=1, overflow="fold")
    for item in rows:
        grid.add_row(item.label, item.words)
    return grid
