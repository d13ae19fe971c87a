"""Profiling from Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.events import EventSink, ignore

if TYPE_CHECKING:
    from harness.grading.grading import Profiler
    from harness.load.problem import Problem
    from harness.load.submission import Submission
    from harness.report import Report
    from harness.sandbox import Sandbox


def profile(
    problem: Problem | str | Path,
    submission: Submission | str | Path,
    *,
    profiler: Profiler = "auto",
    device: str = "auto",
    workload: str | None = None,
    seed: int | None = None,
    sandbox: str | Sandbox | None = None,
    wait: bool = True,
    on_event: EventSink = ignore,
) -> Report:
    """Check a submission as `harness check` does, and profile it if it passes.

    The profile is the report's `profile`; None where the verdict is not accepted. `profiler`: torch traces only, ncu
    also reads hardware counters and raises DeviceError where there is no Nsight Compute, auto reads them if there is
    one. The other arguments, and what is raised, are those of `grade`.
    """
    from harness.grading.grader import grade

    return grade(
        problem,
        submission,
        mode="profile",
        profiler=profiler,
        device=device,
        workload=workload,
        seed=seed,
        sandbox=sandbox,
        wait=wait,
        on_event=on_event,
    )
