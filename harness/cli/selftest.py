"""`harness selftest`: the corpus of attacks and of honest look-alikes on this machine, as a table by class."""

from __future__ import annotations

import fnmatch
import json as json_module
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import text
from harness.cli.errors import guarded
from harness.cli.grading import Device, Sandbox
from harness.cli.streams import WrongUse, check_json_target, claimed_stdout, console, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.selftest.corpus import Case, Corpus
    from harness.selftest.ending import Result


@guarded
def selftest(
    device: Device = "auto",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="A class (A9), a group (timing), or entries (timing/*clock*); repeatable."
        ),
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write all results there as JSON.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=64, help="Gradings at once; one of them has the device.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The corpus; default: tests/attacks/corpus of this checkout.")
    ] = None,
    sandbox: Sandbox = None,
) -> int:
    """Grade known attacks and honest code like them; exit code 1 when one is missed or falsely accused."""
    check_json_target(json)
    with claimed_stdout() as stdout:
        from harness.selftest.corpus import CorpusError, default_folder, load_corpus

        try:
            loaded = load_corpus(corpus or default_folder())
        except CorpusError as error:
            raise WrongUse(str(error)) from None
        kind, name = _device(device)
        cases = _chosen(loaded, loaded.cases(kind), only)
        elsewhere = [] if only else loaded.elsewhere(kind)
        began = time.monotonic()
        results = _run(cases, jobs, kind, name, sandbox)
        found = _summary(loaded, results, elsewhere) | {"device": name, "seconds": round(time.monotonic() - began, 1)}
        document = json_module.dumps(found, indent=2, ensure_ascii=False)
        if json == "-":
            print(document, file=stdout)
        else:
            _print(found, console(stdout), chosen=bool(only))
            if json is not None:
                write_json(document, json)
    return 0 if found["good"] else 1


def _device(asked: str) -> tuple[Any, str]:
    """The kind of device, and the name under which each grading opens it."""
    from harness.machine.device import open_device

    opened = open_device(asked)
    return opened.kind, opened.torch_name


def _chosen(corpus: Corpus, cases: list[Case], only: list[str] | None) -> list[Case]:
    if not only:
        return cases
    from harness.selftest.corpus import Attack

    def fits(case: Case, pattern: str) -> bool:
        named = case.entry.classes if isinstance(case.entry, Attack) else ()
        return pattern in named or pattern == case.group or fnmatch.fnmatch(case.name, pattern)

    for pattern in only:
        if not any(fits(case, pattern) for case in cases):
            groups = ", ".join(corpus.tables)
            raise WrongUse(
                f"--only {pattern} fits no entry for this device: name a class of classes.toml, one of the groups "
                f"{groups}, or a pattern such as timing/*clock*."
            )
    return [case for case in cases if any(fits(case, pattern) for pattern in only)]


def _run(cases: list[Case], jobs: int | None, kind: str, name: str, sandbox: str | None) -> list[Result]:
    from harness.selftest.running import Runner, default_jobs

    results = []
    with Runner(jobs or default_jobs(kind), device=name, sandbox=sandbox) as runner:
        for number, result in enumerate(runner.results(cases), start=1):
            results.append(result)
            seconds = "" if result.outcome is None else f" {result.outcome.seconds:.1f} s"
            # Why at once: who stops a long run has learned what it found until then.
            why = "" if result.good else f"\n    {text.clean(result.why, 1000)}"
            print(
                f"[{number}/{len(cases)}] {result.case.name}: {result.status.value}{seconds}{why}",
                file=sys.stderr,
                flush=True,
            )
    return results


def _summary(corpus: Corpus, results: list[Result], elsewhere: list[Case]) -> dict[str, Any]:
    from harness.selftest.summary import summary

    return summary(corpus, results, elsewhere)


def _print(found: dict[str, Any], out: Console, *, chosen: bool) -> None:
    out.print(_classes(found, chosen=chosen))
    for entry in found["entries"]:
        if entry["status"] in ("missed", "otherwise", "false alarm"):
            out.print(f"{entry['status'].upper()}  {text.one_line(entry['entry'])}: {text.clean(entry['why'], 1000)}")
    for entry in found["entries"]:
        if entry["status"] == "not run":
            out.print(f"not run  {text.one_line(entry['entry'])}: {entry['why']}")
    if found["elsewhere"]:
        out.print(f"{len(found['elsewhere'])} entries need another kind of device.")
    counts, honest = found["counts"], found["honest"]
    out.print(
        f"{found['device']}, {found['seconds']:.0f} s: {counts['caught']} attacks caught, {counts['missed']} missed, "
        f"{counts['otherwise']} ended otherwise; {honest['fine']} honest fine, {honest['false alarm']} false alarms."
    )


def _classes(found: dict[str, Any], *, chosen: bool) -> Table:
    """A row for each class; where entries were `chosen`, for theirs alone."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class", no_wrap=True)
    table.add_column("attack", overflow="fold")
    table.add_column("caught", justify="right")
    table.add_column("missed", justify="right")
    table.add_column("not run here", overflow="fold")
    for name, row in found["classes"].items():
        ran = row["caught"] + row["missed"] + row["otherwise"]
        if chosen and not ran and not row["not_run"]:
            continue
        bad = row["missed"] + row["otherwise"]
        table.add_row(
            name,
            Text(text.one_line(row["name"], 60)),
            str(row["caught"]) if ran else "-",
            Text(str(bad), style="bold red") if bad else "0" if ran else "-",
            Text(_why_not(row), style="dim"),
        )
    return table


def _why_not(row: dict[str, Any]) -> str:
    if row["not_built"]:
        return f"never: {row['not_built']}"
    parts = [f"{row['elsewhere']} need another device"] if row["elsewhere"] else []
    parts += [f"{row['not_run']} not run"] if row["not_run"] else []
    return ", ".join(parts)
