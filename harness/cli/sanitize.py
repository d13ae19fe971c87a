"""`harness sanitize`: one call of a submission under compute-sanitizer, and what it found."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import text
from harness.cli.arguments import check_arguments
from harness.cli.errors import guarded
from harness.cli.grading import Device, NoWait, Problem, Sandbox, Seed, Submission
from harness.cli.progress import progress
from harness.cli.streams import WrongUse, check_json_target, claimed_stdout, console, write_json
from harness.events import Progress
from harness.jsontext import writable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from harness.sanitizing.findings import Finding, Place, Sanitizing, ToolRun

_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def _tools(given: str) -> tuple[str, ...]:
    """What `--tool` names."""
    if given == "all":
        return _TOOLS
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",")))
    unknown = [name for name in names if name not in _TOOLS]
    if unknown:
        raise WrongUse(f"there is no tool {unknown[0]!r}: name all, or any of {', '.join(_TOOLS)}.")
    return names


@guarded
def sanitize(
    problem: Problem,
    submission: Submission,
    tool: Annotated[
        str,
        typer.Option(
            "--tool",
            metavar="memcheck|racecheck|initcheck|synccheck|all",
            help="What to look for; several with commas between them.",
        ),
    ] = "all",
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Sizes to call it with; default: small ones of the problem's.")
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write all that was found there as JSON.")
    ] = None,
    device: Device = "auto",
    seed: Seed = None,
    sandbox: Sandbox = None,
    no_wait: NoWait = False,
) -> int:
    """Look for memory errors and races with compute-sanitizer; 1 when there are any, 2 where that can't be done."""
    names = _tools(tool)
    check_json_target(json)
    problem = check_arguments(problem, submission)
    with claimed_stdout() as stdout:
        with progress(sys.stderr) as on_event:
            on_event(Progress("sanitize", "starting"))  # importing torch takes a while
            from harness.sanitizing.run import sanitize as run

            found = run(
                problem,
                submission,
                tools=names,  # type: ignore[arg-type]  # checked above
                workload=workload,
                device=device,
                seed=seed,
                sandbox=sandbox,
                wait=not no_wait,
                on_event=on_event,
            )
        document = json_module.dumps(
            writable({"clean": found.clean, **found.model_dump(mode="json")}), indent=2, ensure_ascii=False
        )
        if json == "-":
            print(document, file=stdout)
        else:
            show(found, console(stdout))
            if json is not None:
                write_json(document, json)
    return 0 if found.clean else 1


def show(found: Sanitizing, out: Console) -> None:
    """For people."""
    for line in lines(found):
        out.print(line)


def lines(found: Sanitizing, most: int | None = None) -> Iterator[Text]:
    """What was found in plain lines, of each tool at most so many findings."""
    from rich.text import Text

    count = len(found.findings)
    broken = [run.tool for run in found.runs if not run.ended]
    word, style = (
        ("CLEAN", "bold green") if found.clean else ("FOUND", "bold red") if count else ("NOT RUN", "bold red")
    )
    head = Text(word, style=style)
    head.append(f"  {text.one_line(found.submission.name)} on {text.one_line(found.problem)}", style="bold")
    head.append(f" ({found.workload}: {found.workload_why}), {text.one_line(found.device.name)}", style="not bold")
    yield head
    for run in found.runs:
        yield _line(run)
        for finding in run.findings[:most]:
            yield from _finding(finding)
        if most is not None and len(run.findings) > most:
            yield Text(f"    and {len(run.findings) - most} more of {run.tool}")
    if broken:
        yield Text(f"  not to the end: {', '.join(broken)}; there may be more", style="yellow")
    yield Text(f"  compute-sanitizer {found.sanitizer}, took {text.seconds(found.seconds)}", style="dim")


def _line(run: ToolRun) -> Text:
    from rich.text import Text

    number = len(run.findings)
    said = "nothing" if not number else f"{number} {'finding' if number == 1 else 'findings'}"
    if run.findings and run.reported > number:
        said += f", reported {run.reported} times"
    if run.cut:
        said += " (more than is printed)"
    if run.aside:
        kernels = len({each.kernel for each in run.aside})
        said += f"; set aside: {sum(each.count for each in run.aside)} about {kernels} of libraries' kernels"
    line = Text(f"  {run.tool:<9} ", style="bold")
    line.append(said, style="not bold" if run.ended else "yellow")
    if run.failure is not None:
        line.append(f"; the call failed: {text.one_line(run.failure, 300)}", style="yellow")
    return line


def _finding(finding: Finding) -> list[Text]:
    from rich.text import Text

    head = Text("    ")
    head.append(finding.kind, style="bold red")
    head.append(f" in {text.one_line(finding.kernel, 120) or 'an unknown kernel'}")
    head.append(f", {finding.count} times" if finding.count > 1 else "")
    if finding.thread is not None:
        block = "" if finding.block is None else f", block {_triple(finding.block)}"
        head.append(f", first in thread {_triple(finding.thread)}{block}")
    lines = [head, Text(f"      {text.one_line(finding.message, 300)}")]
    for place in [*([finding.place] if finding.place else []), *finding.others, *finding.called_from]:
        if place.line is not None:
            lines.append(Text(f"      {_where(place)}", style="cyan"))
    return lines


def _where(place: Place) -> str:
    line = f"{place.file}:{place.line}"
    if place.submission_line is not None and place.file == "cuda_sources":
        line = f"line {place.submission_line} (cuda_sources:{place.line})"
    return f"{line}  {text.one_line(place.text or '', 120)}".rstrip()


def _triple(three: tuple[int, int, int]) -> str:
    return f"({three[0]}, {three[1]}, {three[2]})"
