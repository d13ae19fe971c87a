"""Grade one submission: what is asked for is looked at here, and the way of it is grading.py."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from harness import sandbox as sandboxes
from harness.clock.plan import Goal
from harness.events import EventSink, ignore
from harness.grading.grading import Grading, Profiler
from harness.judge.evidence import Evidence
from harness.load.problem import Problem
from harness.load.submission import Submission, SubmissionError
from harness.machine.device import open_device
from harness.profiling.counted import check_counters
from harness.report import Report, SubmissionInfo
from harness.sandbox import Sandbox
from harness.seeds import Seeds
from harness.workers.prepared import Supply

Mode = Literal["run", "check", "compile", "profile"]
Baseline = Literal["eager", "compile"]


def grade(
    problem: Problem | str | Path,
    submission: Submission | str | Path,
    *,
    device: str = "auto",
    workload: str | None = None,
    seed: int | None = None,
    mode: Mode = "run",
    sandbox: str | Sandbox | None = None,
    arch: str | None = None,
    relative_half_width: float | None = None,
    budget_s: float | None = None,
    baselines: Sequence[Baseline] = ("eager",),
    lock_clocks: bool = False,
    wait: bool = True,
    profiler: Profiler = "auto",
    prepared: Supply | None = None,
    on_event: EventSink = ignore,
) -> Report:
    """Grade one submission.

    `mode` is run (check and time), check (no timing), compile (only build, which needs no GPU; `arch` such as "9.0"
    says for which one) or profile (check, and look at what passes: `profiler` torch traces only, ncu needs Nsight
    Compute, auto takes it where there is one). `seed` repeats an earlier grading. Timing ends when both medians are
    known within `relative_half_width` (0.003 is 0.3 %) or after `budget_s` seconds. `baselines` are what it is timed
    against: besides the reference as it is (eager) also the reference under torch.compile (compile). `lock_clocks`
    holds the GPU's clocks meanwhile. Without `wait` a device that another grading has is a DeviceBusy. `prepared` has
    workers ready, which are used where they fit. Whatever the submission does ends in the report.
    Raises ProblemError, DeviceError, SandboxError, and SubmissionError with the code submission.not_found, for wrong
    use.
    """
    problem = problem if isinstance(problem, Problem) else Problem.load(problem)
    evidence = Evidence(mode=mode)
    try:
        loaded = problem.submission(submission)
        info = SubmissionInfo(
            path=None if loaded.path is None else str(loaded.path), name=loaded.name, sha256=loaded.sha256
        )
    except SubmissionError as error:
        if error.code == "submission.not_found" or isinstance(submission, Submission):
            raise
        evidence.invalid = error
        loaded, info = None, _info_of_unreadable(Path(submission))
    # A compile needs no device: what stands in for one is the CPU, with the architecture that was asked for.
    chosen = open_device("cpu" if mode == "compile" else device)
    evidence.device = chosen.kind
    loads = problem.graded(workload, chosen.kind)
    if mode == "profile":
        loads = loads[:1]  # of several that rank the first: a profile is of one
        if profiler == "ncu":
            check_counters(chosen)
    grading = Grading(
        problem=problem,
        workloads=loads,
        submission=loaded,
        info=info,
        device=chosen,
        arch=arch or chosen.arch,
        sandbox=sandboxes.chosen(sandbox),
        seeds=Seeds(seed),
        evidence=evidence,
        goal=_goal(problem, relative_half_width, budget_s),
        baselines=("reference", "compiled") if "compile" in baselines else ("reference",),
        lock_clocks=lock_clocks,
        wait=wait,
        profiler=profiler,
        prepared=prepared,
        on_event=on_event,
    )
    return grading.run()


def _goal(problem: Problem, relative_half_width: float | None, budget_s: float | None) -> Goal:
    asked: dict[str, Any] = {"relative_half_width": relative_half_width, "budget_s": budget_s}
    goal = Goal(budget_s=min(problem.spec.limits.time_s, Goal.budget_s))
    return replace(goal, **{name: value for name, value in asked.items() if value is not None})


def _info_of_unreadable(path: Path) -> SubmissionInfo:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return SubmissionInfo(path=str(path), name=path.name, sha256=digest.hexdigest())
