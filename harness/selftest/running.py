"""Gradings of many entries, in processes of their own that each import torch once.

Several at once: while one has the device, the workers of others import torch. The lock of the device sees to it that
only one checks or times at a time. What is timed on a CPU comes last, one after another.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from pathlib import Path

from harness.report import OutsideClock
from harness.selftest.corpus import Case
from harness.selftest.ending import Outcome, Result, Status, ended

_BUDGET_S = 0.3
"""For the times of one entry: an attack is off by factors, not by per cents."""
_HALF_WIDTH = 0.02
_Key = tuple[str, str, str, str | None, str]
_Task = tuple[str, str, str, str, str | None, str | None]


class Runner:
    """Grades entries; leaving it ends its processes."""

    def __init__(self, jobs: int, *, device: str, sandbox: str | None = None) -> None:
        """`device` is one that `grade` knows, such as cpu or cuda:0; `sandbox` None is the best there is."""
        self._device = device
        self._sandbox = sandbox
        # Fresh interpreters: a fork of a process with threads, or with a CUDA context, is no good start.
        self._pool = ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_interrupts
        )
        self._alone = ThreadPoolExecutor(1, "alone")
        self._begun: dict[_Key, Future[Outcome]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Begin nothing more, and wait for what was begun."""
        self._alone.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._alone.shutdown(wait=True)

    def begin(self, cases: Sequence[Case]) -> None:
        """Have them graded, twins included, in the order of `in_order` as far as there is room."""
        for case in in_order(cases):
            if self._why_not(case) is None:
                self._grade(case, case.path)
                if case.twin is not None:
                    self._grade(case, case.twin)

    def result(self, case: Case) -> Result:
        """How an entry ended, waiting for it."""
        if (why := self._why_not(case)) is not None:
            return Result(case, Status.NOT_RUN, why)
        outcome = self._grade(case, case.path)
        twin = None if case.twin is None else self._grade(case, case.twin)
        return ended(case, outcome.result(), None if twin is None else twin.result())

    def results(self, cases: Sequence[Case]) -> Iterator[Result]:
        """All of them, in the order of `in_order`."""
        self.begin(cases)
        for case in in_order(cases):
            yield self.result(case)

    def _grade(self, case: Case, path: Path) -> Future[Outcome]:
        """One grading for each submission, problem, mode and workload: several attacks may share a twin."""
        entry = case.entry
        key = (str(path.resolve()), entry.problem, entry.mode, entry.workload, case.kind)
        task = (str(case.problem), str(path), self._device, entry.mode, entry.workload, self._sandbox)
        with self._lock:
            if key not in self._begun:
                if case.kind == "cpu" and entry.mode == "run":
                    # Alone: what else runs on a CPU is in the times, and with it in what can be said of them.
                    before = list(self._begun.values())
                    self._begun[key] = self._alone.submit(self._graded_after, before, task)
                else:
                    self._begun[key] = self._pool.submit(_graded, *task)
            return self._begun[key]

    def _graded_after(self, before: list[Future[Outcome]], task: _Task) -> Outcome:
        wait(before)
        return self._pool.submit(_graded, *task).result()

    def _why_not(self, case: Case) -> str | None:
        entry = case.entry
        if entry.isolated and not isolates(self._sandbox):
            return "it would harm the machine, and no sandbox isolates here"
        if entry.machine not in ("any", platform.machine()):
            return f"it is made for {entry.machine}"
        return None


def in_order(cases: Sequence[Case]) -> list[Case]:
    """Those that are not timed first: they can be graded side by side, and timed ones on a CPU want it quiet."""
    return sorted(cases, key=lambda case: case.kind == "cpu" and case.entry.mode == "run")


def default_jobs(kind: str) -> int:
    """As many as keep the device busy: a worker imports torch for seconds before it uses it."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, 4 if kind == "cuda" else 8))


def isolates(sandbox: str | None) -> bool:
    """Whether what runs in that sandbox, or in the best there is, can't harm the machine."""
    from harness import sandbox as sandboxes
    from harness.sandbox import PlainSandbox

    chosen = sandboxes.chosen(sandbox)
    return not isinstance(chosen, PlainSandbox)


def _leave_interrupts() -> None:
    """Ctrl-C is for the process that waits for the results: it ends us when what we are at is done."""
    signal.signal(signal.SIGINT, lambda *_: None)


def _graded(
    problem: str, submission: str, device: str, mode: str, workload: str | None, sandbox: str | None
) -> Outcome:
    """In a process of the pool."""
    from harness.grading.grader import grade

    began = time.monotonic()
    try:
        report = grade(
            problem,
            submission,
            device=device,
            mode="run" if mode == "run" else "check",
            workload=workload,
            sandbox=sandbox,
            budget_s=_BUDGET_S,
            relative_half_width=_HALF_WIDTH,
        )
    except Exception as error:  # noqa: BLE001 - one entry that can't be graded must not hide the others
        return Outcome("not_graded", "selftest.error", f"{type(error).__name__}: {error}")
    timing = report.timing
    outside = None if timing is None else timing.outside
    return Outcome(
        verdict=report.verdict.value,
        reason=report.reason.code,
        message=report.reason.message,
        median_us=None if report.score is None else report.score.time_us,
        speedup=None if report.score is None else report.score.speedup,
        blurred=outside is not None and _blurred(outside),
        seconds=round(time.monotonic() - began, 2),
    )


def _blurred(outside: OutsideClock) -> bool:
    """Whether the clocks were too unsure to tell a forged time: of calls in loops, or of calls alone."""
    alone_us, allowed_us = outside.single_us or 0.0, outside.single_tolerance_us or 0.0
    if outside.by_singles:
        return (outside.unsure_us or 0.0) > alone_us / 2
    return outside.tolerance_us > outside.outside_us / 2 or allowed_us > alone_us / 2
