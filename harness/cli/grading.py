"""`harness run`, `check`, `compile`, `profile`: a grading or a part of it, progress on stderr, the report on stdout."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.arguments import check_arguments
from harness.cli.errors import guarded
from harness.cli.progress import progress
from harness.cli.signals import say
from harness.cli.streams import WrongUse, check_json_target, claimed_stdout, console, document, write_json
from harness.events import Progress

if TYPE_CHECKING:
    from harness.report import Report

_CORES = 8
"""With fewer, processes that may not be needed would keep the others from starting."""

Problem = Annotated[str, typer.Argument(metavar="PROBLEM", help="A problem's folder, or a KernelBench file.")]
Submission = Annotated[str, typer.Argument(metavar="SUBMISSION", help="A Python file with a class ModelNew.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda[:N]", help="auto: the first GPU, else the CPU.")]
Workload = Annotated[
    str | None, typer.Option(metavar="NAME", help="One of the problem's sets of sizes; harness problems lists them.")
]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="PATH|-", help="Write the report there; with - stdout holds it and nothing else."),
]


def _seed(text: str) -> int:
    """A parser, and not bounds: those would fill the help with 39 digits."""
    if not re.fullmatch(r"[0-9]{1,39}", text) or int(text) >= 2**128:
        raise typer.BadParameter("a seed is a whole number of at most 128 bits, as a report names it")
    return int(text)


Seed = Annotated[
    int | None, typer.Option(metavar="N", parser=_seed, help="Repeat a grading: the seed that its report names.")
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        metavar="bubblewrap|docker|none", help="How the submission is confined; default: the first that can be used."
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Leave, with exit code 2, when another grading has the device.")
]


def _baselines(given: str) -> tuple[str, ...]:
    """What `--baseline` names."""
    names = tuple(name.strip() for name in given.split(","))
    unknown = [name for name in names if name not in ("eager", "compile")]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is no baseline; there are eager and compile, as in eager,compile")
    return names


@guarded
def run(
    problem: Problem,
    submission: Submission,
    device: Device = "auto",
    workload: Workload = None,
    json: Json = None,
    seed: Seed = None,
    sandbox: Sandbox = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw samples, intervals and roofline: FILE.png, .svg or .html.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", min=0.01, max=50, help="Time until both medians are known this well; 0.3."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Time for this long at most; 2.5.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="eager,compile", parser=_baselines, help="compile: also time the reference compiled."),
    ] = None,
    lock_clocks: Annotated[
        bool, typer.Option("--lock-clocks", help="Hold the GPU's clocks while timing; takes root.")
    ] = False,
    no_wait: NoWait = False,
) -> int:
    """Grade a submission: build it, check it, time it."""
    return _grade(
        problem,
        submission,
        json,
        plot,
        mode="run",
        device=device,
        workload=workload,
        seed=seed,
        sandbox=sandbox,
        **_asked(
            relative_half_width=None if interval is None else interval / 100,
            budget_s=budget,
            baselines=baseline,
            lock_clocks=lock_clocks or None,
            wait=False if no_wait else None,
        ),
    )


@guarded
def check(
    problem: Problem,
    submission: Submission,
    device: Device = "auto",
    workload: Workload = None,
    json: Json = None,
    seed: Seed = None,
    sandbox: Sandbox = None,
    no_wait: NoWait = False,
) -> int:
    """Build and check a submission, without timing it."""
    return _grade(
        problem,
        submission,
        json,
        mode="check",
        device=device,
        workload=workload,
        seed=seed,
        sandbox=sandbox,
        **_asked(wait=False if no_wait else None),
    )


@guarded
def compile_(
    problem: Problem,
    submission: Submission,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="X.Y",
            help="Compute capability, such as 9.0 or 9.0a; default: this machine's GPU, or 9.0 without one.",
        ),
    ] = None,
    json: Json = None,
    sandbox: Sandbox = None,
) -> int:
    """Only build what a submission compiles; needs no GPU."""
    if arch is not None and not re.fullmatch(r"\d{1,2}\.\d[af]?", arch):
        raise WrongUse(f"--arch {arch} is no compute capability: {_how_to_write(arch)}.")
    return _grade(problem, submission, json, mode="compile", sandbox=sandbox, arch=arch or _own_arch())


@guarded
def profile(
    problem: Problem,
    submission: Submission,
    ncu: Annotated[bool, typer.Option("--ncu", help="Hardware counters are a must: an error without ncu.")] = False,
    torch: Annotated[bool, typer.Option("--torch", help="The tracer alone, no hardware counters.")] = False,
    device: Device = "auto",
    workload: Workload = None,
    json: Json = None,
    seed: Seed = None,
    sandbox: Sandbox = None,
    no_wait: NoWait = False,
) -> int:
    """Check a submission, then show where its time goes, what bounds it and what to try."""
    if ncu and torch:
        raise WrongUse("--ncu asks for hardware counters and --torch for none: give one of them, or neither.")
    return _grade(
        problem,
        submission,
        json,
        mode="profile",
        device=device,
        workload=workload,
        seed=seed,
        sandbox=sandbox,
        **_asked(
            profiler="ncu" if ncu else "torch" if torch else None,
            wait=False if no_wait else None,
        ),
    )


def _how_to_write(arch: str) -> str:
    """What was meant by sm_90a or 90, where that can be told."""
    match = re.fullmatch(r"(?:sm_?|compute_)?(\d{1,2})\.?(\d[af]?)", arch)
    if match is not None:
        return f"write it with a point, as {match[1]}.{match[2]}"
    return "write it as 9.0 or 9.0a (H100, H200) or 8.0 (A100)"


def _own_arch() -> str:
    from harness.machine.device import open_device

    return open_device("auto").arch or "9.0"


def _asked(**options: Any) -> dict[str, Any]:
    """The options that were given: for the others the engine has defaults of its own."""
    return {name: value for name, value in options.items() if value is not None}


def _grade(problem: str, submission: str, json: str | None, plot: str | None = None, **options: Any) -> int:
    problem = check_arguments(problem, submission)
    check_json_target(json)
    if plot is not None:
        from harness.clock.plot import check_target

        check_target(plot)
    with claimed_stdout() as stdout:
        with progress(sys.stderr) as on_event, _started_early(problem, options) as early:
            # Importing torch comes before the first stage and takes longer than some of them.
            on_event(Progress("load", "starting"))
            from harness.grading.grader import grade

            report = grade(problem, submission, on_event=on_event, **options, **early)
        if json == "-":
            print(document(report), file=stdout)
        else:
            from harness.cli.table import print_report

            print_report(report, console(stdout))
            if json is not None:
                write_json(document(report), json)
        if plot is not None:
            _draw(report, plot)
    return report.exit_code


@contextlib.contextmanager
def _started_early(problem: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Have the workers' processes import torch while this one does; what to tell the grader of it.

    Where it can't be told what they are to be, nothing is started: the grader says what is wrong, if anything is.
    """
    from harness import sandbox as sandboxes
    from harness.machine.place import likely_place
    from harness.workers.prepared import FURTHER, EarlyWorkers

    mode, name = options["mode"], options.get("sandbox")
    place = likely_place("cpu" if mode == "compile" else options.get("device", "auto"))
    if place is None or not (name is None or name in sandboxes.SANDBOXES):
        yield {}
        return
    with EarlyWorkers(name, place) as early:
        from harness.load.problem import Problem, ProblemError

        started = {}
        try:
            loaded = Problem.load(problem)
            workload = loaded.graded(options.get("workload"), place.kind)[0]
        except ProblemError:
            pass
        else:
            timed = mode == "run" and workload.timed
            count = 1 + (len(options.get("baselines", ("eager",))) if timed else 0)
            if timed and place.kind == "cuda" and len(os.sched_getaffinity(0)) >= _CORES:
                count += FURTHER  # calls may be short; that shows only later, and importing torch takes seconds
            early.start(loaded.spec.limits.memory_gb, count)
            started = {"prepared": early}
        yield started


def _draw(report: Report, target: str) -> None:
    from harness.clock.plot import has_times, write_plot

    if not has_times(report):
        say(f"{target} was not written: nothing was timed.")
        return
    write_plot(report, target)
