"""`harness report RUN`: what a batch came to, as a table, a page or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import text
from harness.cli.errors import guarded
from harness.cli.streams import WrongUse, claimed_stdout, console, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.batch.summary import GroupSummary, Summary

_SHOWN_P = ("1", "2")
"""The second only where one pass@k is shown: a line has 80 columns."""
_SHOWN_FAILURES = 15


@guarded
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that harness batch wrote.")],
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Also write a page with plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="kernelbench", help="Print the results as another tool has them: its JSON."),
    ] = None,
    level: Annotated[int | None, typer.Option(metavar="N", help="With --format kernelbench: of which level.")] = None,
) -> int:
    """Sum up a batch: verdicts, fast_p, pass@k and speedups by problem and level, and what failed."""
    if form not in (None, "kernelbench"):
        raise WrongUse(f"--format {form}: there is kernelbench, whose eval_results.json it prints.")
    if form is not None:
        return _kernelbench(run, level)
    if html is not None and not Path(html).absolute().parent.is_dir():
        raise WrongUse(f"--html {html} can't be written: there is no such folder; make it first.")
    with claimed_stdout() as stdout:
        from harness.batch.page import page
        from harness.batch.store import RunError, read_not_used, read_results
        from harness.batch.summary import summarize

        try:
            summary = summarize(read_results(run))
        except RunError as error:
            raise WrongUse(str(error)) from None
        not_used = read_not_used(run)
        if html is not None:
            write_json(page(summary, f"Batch {run.absolute().name}", not_used), html)
        if as_json:
            print(summary.model_dump_json(indent=2), file=stdout)
            return 0
        _print(summary, console(stdout))
        if not_used:
            console(stdout).print(f"{len(not_used)} inputs could not be used: {run / 'not_used.json'}")
    return 0


def _kernelbench(run: Path, level: int | None) -> int:
    with claimed_stdout() as stdout:
        from harness.batch.kernelbench import NotKernelBench, eval_results
        from harness.batch.store import RunError, read_results

        try:
            print(json.dumps(eval_results(read_results(run), level), indent=4), file=stdout)
        except (RunError, NotKernelBench) as error:
            raise WrongUse(str(error)) from None
    return 0


def _print(summary: Summary, out: Console) -> None:
    out.print(_groups(summary.groups))
    if summary.failures:
        out.print(_failures(summary))
    if len(summary.failures) > _SHOWN_FAILURES:
        out.print(f"{len(summary.failures) - _SHOWN_FAILURES} more ways of failing: --json and --html have all.")
    for stage in summary.stages[:3]:
        name, seconds = stage.slowest[0]
        out.print(
            f"{stage.name}: {text.seconds(stage.seconds)} in all, {text.seconds(stage.mean_s)} each; "
            f"slowest {text.one_line(name, 60)}, {text.seconds(seconds)}"
        )
    out.print(f"{summary.results} results from {summary.gradings} gradings.")


def _groups(groups: list[GroupSummary]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from harness.batch.page import interval, speedup

    every = sorted({k for group in groups for k in group.pass_at_k}, key=int)
    ks = list(dict.fromkeys([*every[:1], *every[-1:]]))
    ps = _SHOWN_P[: 1 if len(ks) > 1 else 2] if any(group.speedups for group in groups) else ()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("problem", overflow="fold", min_width=16)
    for head in ("right", *(head for p in ps for head in (f"fast_{p}", "surely")), *(f"pass@{k}" for k in ks)):
        table.add_column(head, justify="right", no_wrap=True)
    if ps:
        table.add_column("speedup", justify="right", no_wrap=True)
        table.add_column("95 %", no_wrap=True)
    for group in groups:
        table.add_row(
            Text(text.one_line(group.name, 80), style="" if group.kind == "problem" else "bold"),
            f"{group.right}/{group.submissions}",
            *(_share(share.get(p)) for p in ps for share in (group.fast_p, group.fast_p_surely)),
            *(_share(group.pass_at_k.get(k)) for k in ks),
            *((speedup(group), interval(group)) if ps else ()),
        )
    return table


def _failures(summary: Summary) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("reason", no_wrap=True)
    table.add_column("first diagnostic, or the first message", overflow="fold")
    table.add_column("for example", overflow="fold")
    for each in summary.failures[:_SHOWN_FAILURES]:
        table.add_row(
            str(each.gradings),
            each.reason,
            Text(text.one_line(each.diagnostic or each.message, 120)),
            Text(text.one_line(", ".join(each.examples), 60)),
        )
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
