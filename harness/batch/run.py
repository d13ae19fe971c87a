"""A batch from its entries to its results: what is done is left out, equal content is graded once, all else begins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.batch.executor import Executor, Gone
from harness.batch.inputs import Entry
from harness.batch.job import Job, Options
from harness.batch.pipeline import Pipeline
from harness.batch.store import Result, Store
from harness.load.problem import Problem
from harness.report import Report


@dataclass
class Tally:
    """How far a batch is."""

    total: int
    """Results that there will be."""
    before: int = 0
    """Of those, results that were there at the start."""
    graded: int = 0
    """Gradings that were done now."""
    shared: int = 0
    """Results that are those of another submission of the same content."""
    verdicts: Counter[str] = field(default_factory=Counter)
    """Of all results that are there."""

    @property
    def done(self) -> int:
        """Results that are there."""
        return self.before + self.graded + self.shared


async def run_batch(
    entries: Iterable[Entry],
    executor: Executor,
    store: Store,
    options: Options,
    *,
    trials: int = 1,
    room: int | None = None,
    on_result: Callable[[Result, Tally], None] = lambda *_: None,
) -> Tally:
    """Grade each entry `trials` times. Whatever ends it, the executor is left with nothing under way, not closed.

    Raises Gone when nobody is left who could grade; what is done by then is in the store.
    """
    batch = _Batch(list(entries), executor, store, options, trials, on_result)
    pipeline = Pipeline(executor, room=room)
    try:
        async with asyncio.TaskGroup() as group:
            await batch.begin_all(pipeline, group)
    except BaseExceptionGroup as group_of:
        if (gone := group_of.subgroup(Gone)) is not None:
            raise Gone(str(_first(gone))) from None
        raise
    finally:
        await pipeline.stop()
    return batch.tally


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


@dataclass(frozen=True)
class _Wanted:
    entry: Entry
    attempt: int


class _Batch:
    def __init__(
        self,
        entries: list[Entry],
        executor: Executor,
        store: Store,
        options: Options,
        trials: int,
        on_result: Callable[[Result, Tally], None],
    ) -> None:
        self._entries, self._executor, self._store = entries, executor, store
        self._options, self._trials, self._on_result = options, trials, on_result
        self._waiting: dict[str, list[_Wanted]] = {}
        self.tally = Tally(total=len(entries) * trials)

    async def begin_all(self, pipeline: Pipeline, group: asyncio.TaskGroup) -> None:
        # All entries once before any a second time: a batch that is ended early has seen most of them.
        for attempt in range(1, self._trials + 1):
            for entry in self._entries:
                wanted = _Wanted(entry, attempt)
                job = _job(entry, self._options, attempt)
                key = job.key(self._executor.device)
                if (verdict := self._store.verdict(entry.id, key)) is not None:
                    self.tally.before += 1
                    self.tally.verdicts[verdict.value] += 1
                elif (same := self._store.same(key)) is not None:
                    self._add(key, [wanted], same.report, same.same_as or same.id)
                elif key in self._waiting:
                    self._waiting[key].append(wanted)
                else:
                    self._waiting[key] = [wanted]
                    group.create_task(self._finish(key, await pipeline.begin(job)))

    async def _finish(self, key: str, task: asyncio.Task[Report]) -> None:
        report = await task
        self._add(key, self._waiting.pop(key), report, None)

    def _add(self, key: str, wanted: list[_Wanted], report: Report, graded_as: str | None) -> None:
        """Write a result for each; the first is the one that was graded, unless another was."""
        results = []
        for each in wanted:
            results.append(_result(each, key, report, graded_as))
            graded_as = graded_as or each.entry.id
        self._store.add(results)
        for result in results:
            if result.same_as is None:
                self.tally.graded += 1
            else:
                self.tally.shared += 1
            self.tally.verdicts[result.report.verdict.value] += 1
            self._on_result(result, self.tally)


def _job(entry: Entry, options: Options, attempt: int) -> Job:
    problem: Problem = entry.problem.problem
    return Job(
        problem=problem,
        content=entry.content,
        sha256=entry.sha256,
        name=entry.name,
        options=options,
        attempt=attempt,
    )


def _result(wanted: _Wanted, key: str, report: Report, graded_as: str | None) -> Result:
    """The report as this entry's own: names and paths are not what was graded."""
    entry = wanted.entry
    info = report.submission.model_copy(update={"name": entry.name, "path": entry.path, "sha256": entry.sha256})
    problem = report.problem
    if problem is not None:
        problem = problem.model_copy(update={"id": entry.problem.problem.id})
    return Result(
        id=entry.id,
        problem=entry.problem.name,
        level=entry.problem.level,
        attempt=wanted.attempt,
        key=key,
        same_as=graded_as,
        report=report.model_copy(update={"submission": info, "problem": problem}),
    )
