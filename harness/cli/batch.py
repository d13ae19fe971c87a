"""`harness batch`: many submissions, graded side by side, their results kept as they come."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import text
from harness.cli.batch_progress import batch_progress
from harness.cli.config import warn_if_exposed
from harness.cli.errors import JUDGE_ERROR, guarded
from harness.cli.grading import Sandbox
from harness.cli.server import need_server
from harness.cli.signals import say
from harness.cli.streams import WrongUse, claimed_stdout

if TYPE_CHECKING:
    from harness.batch.executor import Executor
    from harness.batch.inputs import BadInput, Entry
    from harness.batch.job import Options
    from harness.batch.problems import ProblemIndex
    from harness.batch.run import Tally
_TOLD = 20
"""Reasons for which inputs can't be used that are told; RUN/not_used.json has all."""
_PLACES = 5
"""Inputs that are named for each of them."""


@guarded
def batch(
    problems: Annotated[
        list[Path],
        typer.Option(metavar="DIR|FILE", help="Problems: a folder of them, one's folder, or a file; repeatable."),
    ],
    submissions: Annotated[
        list[Path],
        typer.Option(metavar="DIR|JSONL", help="Submissions: a folder of files, or lines of JSON; repeatable."),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the results; the same again goes on.")],
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[PROBLEM]...", help="Further problems, as a shell's * gives them.")
    ] = None,
    trials: Annotated[int, typer.Option(metavar="K", min=1, max=1000, help="Gradings of each submission.")] = 1,
    devices: Annotated[
        str,
        typer.Option(
            metavar="auto|cpu|cuda:0,cuda:1",
            help="auto: every GPU, else the CPU; in a cluster a kind, as NVIDIA_H200.",
        ),
    ] = "auto",
    executor: Annotated[
        str,
        typer.Option(metavar="local|ray|server", help="Who grades: this machine, a Ray cluster, a server's agents."),
    ] = "local",
    ray_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", envvar="RAY_ADDRESS", help="The cluster; auto: the one of this machine.")
    ] = "auto",
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server; it and your key by default as harness config shows.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Build and check, without timing.")] = False,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="One set of sizes, which every problem must have.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option(metavar="PERCENT", min=0.01, max=50, help="As for harness run.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="As for harness run.")
    ] = None,
    builders: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=512, help="Builds at once; default: one for each core.")
    ] = None,
    overlap: Annotated[
        int, typer.Option(metavar="N", min=1, max=8, help="Gradings begun on a device while one of them has it.")
    ] = 1,
    sandbox: Sandbox = None,
) -> int:
    """Grade many submissions; exit code 1 when something could not be used or graded."""
    if executor not in ("local", "ray", "server"):
        raise WrongUse(f"there is no executor {executor!r}; there are local, ray and server.")
    if executor == "server" and (interval or budget or sandbox):
        raise WrongUse("a server has its own interval, budget and sandbox; leave those options out.")
    with claimed_stdout():
        import asyncio

        from harness.batch.executor import Gone
        from harness.batch.inputs import BadInput
        from harness.batch.job import Options
        from harness.batch.store import RunError

        options = Options("check" if check else "run", workload, budget, None if interval is None else interval / 100)
        options = Options(**{**vars(options), "sandbox": sandbox})
        index, broken = _problems([*problems, *(more or [])])
        entries, unusable = _submissions(submissions, index)
        not_used = [BadInput(str(path), why) for path, why in broken] + unusable
        _tell(not_used, out)
        if not entries:
            raise WrongUse("there is no submission that can be graded.")

        async def graded() -> Tally:
            if executor == "ray":
                opened = await _cluster(ray_address, devices)
            elif executor == "server":
                opened = await _agents(server, devices)
            else:
                opened = _this_machine(devices, builders, overlap)
            return await _run(entries, opened, out, not_used, options, trials)

        try:
            tally = asyncio.run(graded())
        except RunError as error:
            raise WrongUse(str(error)) from None
        except Gone as error:
            say(f"{error} What is done is kept: the same command goes on.")
            return JUDGE_ERROR
    say(f"{tally.graded} graded, {tally.shared} of the same content, {tally.before} there before: {out}/results.jsonl")
    return 1 if not_used or tally.verdicts["judge_error"] else 0


async def _cluster(address: str, devices: str) -> Executor:
    from harness.batch.executor import Gone
    from harness.batch.ray.executor import RayExecutor

    try:
        return await RayExecutor.connect(address, devices, say=lambda what: say(text.one_line(what, 500)))
    except Gone as error:
        raise WrongUse(str(error)) from None


async def _agents(server: str | None, devices: str) -> Executor:
    need_server()
    from harness.batch.executor import Gone
    from harness.batch.server import ServerExecutor

    warn_if_exposed()
    try:
        return await ServerExecutor.connect(server, None, devices)
    except Gone as error:
        raise WrongUse(str(error)) from None


def _this_machine(devices: str, builders: int | None, overlap: int) -> Executor:
    from harness.batch.local import LocalExecutor, local_devices

    return LocalExecutor(local_devices(devices), build_slots=builders, overlap=overlap)


async def _run(
    entries: list[Entry], executor: Executor, out: Path, not_used: list[BadInput], options: Options, trials: int
) -> Tally:
    from harness.batch.run import run_batch
    from harness.batch.store import Store

    try:
        _check_workload(entries, options.workload, executor.kind)
        with Store(out, {"device": executor.device, **vars(options)}) as store:
            if store.repaired:
                say("the last result had been cut short by a kill; its grading is done again.")
            store.write_not_used(not_used)
            with batch_progress(sys.stderr) as told:
                return await run_batch(entries, executor, store, options, trials=trials, on_result=told)
    finally:
        await executor.close()


def _problems(paths: list[Path]) -> tuple[ProblemIndex, list[tuple[Path, str]]]:
    from harness.batch.problems import ProblemIndex, find_problems

    found = list(find_problems(paths))
    loaded = [problem for _, problem in found if not isinstance(problem, str)]
    broken = [(path, problem) for path, problem in found if isinstance(problem, str)]
    if not loaded:
        why = f": {broken[0][1]}" if broken else "; name a folder that holds problems."
        raise WrongUse(f"there is no problem that can be used{why}")
    return ProblemIndex(loaded), broken


def _submissions(paths: list[Path], index: ProblemIndex) -> tuple[list[Entry], list[BadInput]]:
    from harness.batch.inputs import Entry, read_submissions

    entries, unusable = [], []
    for found in read_submissions(paths, index):
        if isinstance(found, Entry):
            entries.append(found)
        else:
            unusable.append(found)
    return entries, unusable


def _tell(not_used: list[BadInput], out: Path) -> None:
    """Each reason once, with the first few inputs that it holds of."""
    places: dict[str, list[str]] = {}
    for each in not_used:
        places.setdefault(each.message, []).append(text.one_line(each.place))
    for message, found in list(places.items())[:_TOLD]:
        more = f" and {len(found) - _PLACES} more" if len(found) > _PLACES else ""
        say(f"{', '.join(found[:_PLACES])}{more}: {text.one_line(message, 500)}")
    if left := sum(len(found) for found in list(places.values())[_TOLD:]):
        say(f"and {left} more that can't be used: {out}/not_used.json has all.")


def _check_workload(entries: list[Entry], workload: str | None, kind: str) -> None:
    """A name that a problem lacks is found before hours are spent. Raises ProblemError."""
    for problem in {entry.problem.name: entry.problem.problem for entry in entries}.values():
        problem.workload(workload, "cpu" if kind == "cpu" else "cuda")
