"""`harness verify`: the problem itself is tested, and what was found is a table or a document."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import text
from harness.cli.arguments import check_problem
from harness.cli.errors import guarded
from harness.cli.grading import Device, NoWait, Sandbox, Seed
from harness.cli.progress import progress
from harness.cli.streams import WrongUse, check_json_target, claimed_stdout, console, write_json
from harness.events import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.verification.findings import Example, Verification

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


@guarded
def verify(
    problems: Annotated[
        list[str] | None, typer.Argument(metavar="PROBLEM...", help="Problem folders, or KernelBench files.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every problem in problems/.")] = False,
    werror: Annotated[bool, typer.Option("--werror", help="Exit code 1 for warnings too.")] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write all that was found there as JSON.")
    ] = None,
    device: Device = "auto",
    expected: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="How submissions must end; default: submissions/expected.toml beside the problems."
        ),
    ] = None,
    no_examples: Annotated[bool, typer.Option("--no-examples", help="Grade no submissions.")] = False,
    seed: Seed = None,
    sandbox: Sandbox = None,
    no_wait: NoWait = False,
) -> int:
    """Test a problem: its submissions end as they should, trivial answers fail, inputs count; 1 when they don't."""
    check_json_target(json)
    paths = [check_problem(path) for path in _chosen(problems or [], every)]
    if expected is not None and not expected.is_file():
        raise WrongUse(f"there is no file {expected}; --expected names a table like submissions/expected.toml.")
    with claimed_stdout() as stdout:
        found = []
        with progress(sys.stderr) as on_event:
            on_event(Progress("verify", "starting"))  # importing torch takes a while
            from harness.verification.run import verify as verify_one

            for path in paths:
                found.append(
                    verify_one(
                        path,
                        device=device,
                        expected=expected,
                        examples=not no_examples,
                        seed=seed,
                        sandbox=sandbox,
                        wait=not no_wait,
                        on_event=on_event,
                    )
                )
        good = all(each.good(werror=werror) for each in found)
        document = json_module.dumps(
            {"good": good, "problems": [each.model_dump(mode="json") for each in found]}, indent=2, ensure_ascii=False
        )
        if json == "-":
            print(document, file=stdout)
        else:
            for each in found:
                _print(each, console(stdout))
            if json is not None:
                write_json(document, json)
    return 0 if good else 1


def _chosen(named: list[str], every: bool) -> list[str]:
    if every and named:
        raise WrongUse("--all means every problem in problems/; leave it out, or the names.")
    if not every and not named:
        raise WrongUse("name a problem's folder, or --all for every one in problems/.")
    if not every:
        return named
    found = sorted(str(toml.parent) for toml in Path("problems").glob("*/problem.toml"))
    if not found:
        raise WrongUse("no problem is in problems/: go to the folder that has it, or name the problems.")
    return found


def _print(found: Verification, out: Console) -> None:
    from rich.text import Text

    errors, warnings = len(found.of("error")), len(found.of("warning"))
    word, style = ("FAILS", "bold red") if errors else ("PASSES", "bold green")
    where = f"{found.workload}, {found.device.name}" if found.workload else found.device.name
    head = Text(word, style=style)
    head.append(f"  {text.one_line(found.problem or found.path)} ({text.one_line(where)})", style="bold")
    head.append(f": {_count(errors, 'error')}, {_count(warnings, 'warning')}", style="not bold")
    out.print(head)
    for finding in found.findings:
        line = Text(f"  {finding.severity} ", style=_STYLES[finding.severity])
        line.append(finding.code, style="bold" if finding.severity != "note" else "dim")
        sentence, *example = finding.message.splitlines() or [""]
        line.append("  " + text.one_line(sentence, 1000), style="default not bold")
        out.print(line)
        for each in example:
            out.print(Text(f"      {text.one_line(each)}"))
    out.print(_figures(found))


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _figures(found: Verification) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=True, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")

    def add(label: str, words: str, style: str = "") -> None:
        table.add_row(label, Text(text.one_line(words, 1000), style=style))

    if found.answers:
        refused = sum(1 for answer in found.answers if answer.refused_by is not None)
        add("answers", f"{refused} of {len(found.answers)} trivial ones refused")
    if found.moved:
        moving = sum(1 for each in found.moved if each.change > 1)
        add("moves", f"{moving} of {len(found.moved)} inputs and parameters move the output")
    for room in found.room:
        honest = "" if room.factor is None else f"{float(f'{room.factor:.3g}'):.15g} times the errors of an honest one"
        factor = honest or "no error at all"
        add("room", f"{room.path}: the tolerance is {factor} in {room.precision}")
    for cost in found.costs:
        (call,) = text.durations(1e6 * cost.call_s, ascii_only=True)
        memory = "" if cost.memory_bytes is None else f", {text.size(cost.memory_bytes)} in use"
        add("cost", f"{cost.workload}: {call} a call{memory}")
    for example in found.examples:
        add("example", *_example(example))
    for left_out in found.left_out:
        add("left out", left_out, "dim")
    add("took", f"{text.seconds(found.seconds)}; --seed {found.seed} repeats it", "dim")
    return table


def _example(example: Example) -> tuple[str, str]:
    name = f"{example.file} ({example.device})"
    if example.got is None:
        return f"{name}: not run, {example.message}", "dim"
    ended = " ".join(example.got)
    if example.as_expected:
        return f"{name}: {ended}, as expected", ""
    return f"{name}: {ended}, not {' '.join(example.expected)}", "red"
