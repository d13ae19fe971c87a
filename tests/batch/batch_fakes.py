"""Problems, entries and reports without any grading, and an executor that hands them out."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from harness.batch.executor import Executor
from harness.batch.inputs import Entry
from harness.batch.job import Job
from harness.batch.problems import Named, ProblemIndex
from harness.load.problem import Problem
from harness.report import (
    BuildInfo,
    Measurement,
    ProblemInfo,
    Reason,
    Report,
    Stage,
    SubmissionInfo,
    Timing,
    Verdict,
)

REFERENCE = "class Model: ...\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
RIGHT = "class ModelNew: ...\n"


def problem_file(folder: Path, name: str, extra: str = "") -> Path:
    """A KernelBench file; `extra` makes it another problem."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(REFERENCE + extra)
    return path


def index_of(folder: Path, *names: str) -> ProblemIndex:
    """Problems of those names (`softmax`, `level1/1_square`), all different."""
    paths = [problem_file(folder / Path(name).parent, Path(name).name, f"# {name}\n") for name in names]
    return ProblemIndex([Problem.load(path) for path in paths])


def entry(problem: Named, identifier: str, text: str = RIGHT) -> Entry:
    content = text.encode()
    return Entry(identifier, problem, f"{identifier}.py", None, content, hashlib.sha256(content).hexdigest())


def measured(us: float) -> Measurement:
    return Measurement(median_us=us, ci95_us=(us, us), mean_us=us, min_us=us, samples_us=[us], method="made up")


def timing(speedup: float, low: float | None = None) -> Timing:
    return Timing(
        candidate=measured(100.0),
        reference=measured(100.0 * speedup),
        speedup=speedup,
        speedup_ci95=(speedup if low is None else low, speedup),
        stopped_because="made up",
    )


def report(
    verdict: Verdict = Verdict.ACCEPTED,
    code: str = "grade.accepted",
    *,
    speedup: float | None = None,
    low: float | None = None,
    message: str = "made up",
    build: BuildInfo | None = None,
    stages: list[Stage] | None = None,
    problem: str = "softmax",
    sha256: str = "ab" * 32,
    log: str = "",
) -> Report:
    return Report(
        harness_version="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        verdict=verdict,
        reason=Reason(code=code, message=message),
        problem=ProblemInfo(id=problem, version="cd" * 32, workload="default"),
        submission=SubmissionInfo(path=None, name="x.py", sha256=sha256),
        timing=None if speedup is None else timing(speedup, low),
        build=build or BuildInfo(),
        stages=stages or [],
        log=log,
    )


class FakeExecutor(Executor):
    """Counts what it is asked for, and how much of it at once; `grade_with` gives the reports."""

    device = "a made-up device"

    def __init__(
        self,
        *,
        slots: int = 2,
        grade_with: Callable[[Job], Awaitable[Report]] | None = None,
        builds_disturb: bool = False,
    ) -> None:
        self.grade_slots = self.build_slots = slots
        self.builds_disturb = builds_disturb
        self.graded: list[Job] = []
        self.built: list[Job] = []
        self.at_once = {"grade": 0, "build": 0}
        self.most = {"grade": 0, "build": 0}
        self.beside = False
        self.cancelled = 0
        self.closed = False
        self._grade_with = grade_with

    async def build(self, job: Job) -> tuple[str, ...]:
        self.built.append(job)
        await self._work("build")
        return (f"key of {job.name}",)

    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        assert artifacts == ((f"key of {job.name}",) if job in self.built else ())
        self.graded.append(job)
        await self._work("grade")
        if self._grade_with is not None:
            return await self._grade_with(job)
        return report(problem=job.problem.id, sha256=job.sha256)

    async def close(self) -> None:
        self.closed = True

    async def _work(self, what: str) -> None:
        self.at_once[what] += 1
        self.most[what] = max(self.most[what], self.at_once[what])
        self.beside = self.beside or min(self.at_once.values()) > 0
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once[what] -= 1
