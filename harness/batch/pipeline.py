"""Jobs on their way through an executor: built ahead, graded, tried again when they were lost.

    grade(job) --room--> build, if its text has any --turn--> grade --lost?--> again, elsewhere --> Report

Whoever asks for more than there is room for waits: that is what keeps memory flat, however long the list. Two jobs of
one key at the same time are one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from harness.batch.executor import Executor, Lost, NotGraded
from harness.batch.job import Job
from harness.report import Reason, Report, SubmissionInfo, Verdict
from harness.version import VERSION

TRIES = 3
"""Gradings of one job that may be lost: more, and it is likely the job itself that takes the process down."""


class Pipeline:
    """Drives one executor."""

    def __init__(self, executor: Executor, *, room: int | None = None) -> None:
        """`room`: jobs under way at once, waiting ones included; by default four for each that is worked on."""
        self._executor = executor
        self.room = room or 4 * (executor.grade_slots + executor.build_slots)
        self._free = asyncio.Semaphore(self.room)
        self._turns = _Turns(executor.builds_disturb)
        self._building = asyncio.Semaphore(executor.build_slots)
        self._grading = asyncio.Semaphore(executor.grade_slots)
        self._under_way: dict[str, asyncio.Task[Report]] = {}

    async def begin(self, job: Job) -> asyncio.Task[Report]:
        """Wait for room and begin. The task's result is a report always: `judge_error` where nobody could grade it."""
        key = job.key(self._executor.device)
        if (same := self._under_way.get(key)) is not None:
            return same
        await self._free.acquire()
        if (same := self._under_way.get(key)) is not None:
            # Somebody else began it while we waited.
            self._free.release()
            return same
        task = asyncio.create_task(self._graded(job))
        self._under_way[key] = task
        task.add_done_callback(lambda over: self._over(key, over))
        return task

    async def end(self, task: asyncio.Task[Report]) -> None:
        """End one, and wait until it has ended. Who asks for the same from now on gets another."""
        for key, under_way in list(self._under_way.items()):
            if under_way is task:
                del self._under_way[key]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        """End what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _over(self, key: str, task: asyncio.Task[Report]) -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
        self._free.release()

    async def _graded(self, job: Job) -> Report:
        artifacts: tuple[str, ...] = ()
        if job.wants_build():
            async with self._turns.build(), self._building:
                try:
                    artifacts = await self._executor.build(job)
                except Lost:
                    artifacts = ()  # the grading builds what is missing, within the job's own limits
        async with self._turns.grading(), self._grading:
            for left in reversed(range(TRIES)):
                try:
                    return await self._executor.grade(job, artifacts)
                except Lost as lost:
                    if not left:
                        return _judge_error(job, "judge.lost", f"It was tried {TRIES} times, and each time {lost}.")
                except NotGraded as why:
                    return _judge_error(job, "judge.not_graded", str(why))
        raise AssertionError("each try ends in a report or an exception")


class _Turns:
    """Builds side by side, gradings side by side, but not one beside the other where builds disturb what is timed.

    Builds go first: they are what the gradings wait for.
    """

    def __init__(self, exclusive: bool) -> None:
        self._exclusive = exclusive
        self._changed = asyncio.Condition()
        self._builds = 0
        self._gradings = 0

    @asynccontextmanager
    async def build(self) -> AsyncIterator[None]:
        if not self._exclusive:
            yield
            return
        self._builds += 1  # from now on, waiting or not, it keeps new gradings back
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._gradings)
            yield
        finally:
            self._builds -= 1
            await self._tell()

    @asynccontextmanager
    async def grading(self) -> AsyncIterator[None]:
        if not self._exclusive:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: not self._builds)
            self._gradings += 1
        try:
            yield
        finally:
            self._gradings -= 1
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _judge_error(job: Job, code: str, message: str) -> Report:
    return Report(
        harness_version=VERSION,
        created_at=datetime.now(UTC),
        mode=job.options.mode,
        verdict=Verdict.JUDGE_ERROR,
        reason=Reason(code=code, message=message),
        submission=SubmissionInfo(path=None, name=job.name, sha256=job.sha256),
    )
