"""Gradings for a program that asks for many and goes on meanwhile: a training loop.

async with Grader(devices="cuda:0,cuda:1") as grader:
    reports = await grader.grade_many(pairs)
    rewards = [reward(report) for report in reports]
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from harness.batch.executor import Executor
from harness.batch.job import Job, Options
from harness.batch.local import LocalExecutor, local_devices
from harness.batch.pipeline import Pipeline
from harness.load.problem import Problem
from harness.load.submission import MAX_BYTES, Submission, SubmissionError
from harness.report import Report

Pair = tuple[Problem | str | Path, Submission | str | Path]


class Grader:
    """Grades pairs of a problem and a submission, on all devices it is given, until it is left.

    A submission is a `Submission`, a `Path` of a file, or a `str`, which is the source itself. Not more than `room`
    gradings are under way: whoever asks for more waits, so a caller can't run ahead of the devices. Two pairs of equal
    content that are under way at once are graded once.

    Cancelling `grade_many` ends its gradings, leaving the Grader ends all; either way their processes end with them.
    """

    def __init__(
        self,
        *,
        devices: str = "auto",
        mode: Literal["run", "check"] = "run",
        workload: str | None = None,
        budget_s: float | None = None,
        relative_half_width: float | None = None,
        sandbox: str | None = None,
        overlap: int = 1,
        room: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`devices` is as for `harness batch`, the middle ones are as for `grade`, `overlap` as for LocalExecutor.

        `executor` takes the place of this machine's devices; it is closed on leaving.
        """
        self._devices = devices
        self._options = Options(mode, workload, budget_s, relative_half_width, sandbox)
        self._overlap = overlap
        self._room = room
        self._executor = executor
        self._pipeline: Pipeline | None = None
        self._problems: dict[Path, Problem] = {}
        self._askers: dict[asyncio.Task[Report], int] = {}

    async def __aenter__(self) -> Self:
        if self._executor is None:
            self._executor = local = LocalExecutor(local_devices(self._devices), overlap=self._overlap)
            local.get_ready(self._options)
        self._pipeline = Pipeline(self._executor, room=self._room)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._pipeline is not None
        assert self._executor is not None
        await self._pipeline.stop()
        await self._executor.close()
        self._pipeline = None

    async def grade(self, problem: Problem | str | Path, submission: Submission | str | Path) -> Report:
        """Grade one. Raises ProblemError for a problem, and SubmissionError for a file, that can't be read.

        The report is a `judge_error` where nobody could grade it.
        """
        job = self._job(problem, submission)
        pipeline = self._pipeline
        if pipeline is None:
            raise RuntimeError("a Grader grades within `async with` only")
        task = await pipeline.begin(job)
        self._askers[task] = self._askers.get(task, 0) + 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Somebody else may be waiting for the same one.
            if self._askers[task] == 1:
                await pipeline.end(task)
            raise
        finally:
            self._askers[task] -= 1
            if not self._askers[task]:
                del self._askers[task]

    async def grade_many(self, pairs: Iterable[Pair]) -> list[Report]:
        """Grade all of them; the reports are in the order of the pairs."""
        reports: dict[int, Report] = {}
        async for place, report in self.as_graded(pairs):
            reports[place] = report
        return [reports[place] for place in sorted(reports)]

    async def as_graded(self, pairs: Iterable[Pair]) -> AsyncIterator[tuple[int, Report]]:
        """Each report with its pair's place, as they are done. Pairs are taken as there is room for them."""
        assert self._pipeline is not None
        under_way: dict[asyncio.Task[Report], int] = {}
        try:
            for place, pair in enumerate(pairs):
                while len(under_way) >= self._pipeline.room:
                    for done in await _first_of(under_way):
                        yield under_way.pop(done), await done
                under_way[asyncio.create_task(self.grade(*pair))] = place
            while under_way:
                for done in await _first_of(under_way):
                    yield under_way.pop(done), await done
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _job(self, problem: Problem | str | Path, submission: Submission | str | Path) -> Job:
        if not isinstance(problem, Problem):
            path = Path(problem)
            problem = self._problems[path] if path in self._problems else Problem.load(path)
            self._problems[path] = problem
        name, content = _text(submission)
        digest = hashlib.sha256(content).hexdigest()
        return Job(problem, content[: MAX_BYTES + 1], digest, name, self._options)


async def _first_of(tasks: Iterable[asyncio.Task[Report]]) -> set[asyncio.Task[Report]]:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return done


def _text(submission: Submission | str | Path) -> tuple[str, bytes]:
    """A name for messages, and the bytes."""
    if isinstance(submission, Submission):
        return submission.name, submission.source.encode()
    if isinstance(submission, str):
        # Half a surrogate pair is no text; the grading says so, with the position.
        return "submission.py", submission.encode("utf-8", "surrogatepass")
    try:
        return submission.name, submission.read_bytes()
    except OSError as error:
        raise SubmissionError(
            "submission.not_found", f"The submission {submission} cannot be read ({error.strerror or error})."
        ) from None
