"""A short call is timed in several processes of the submission. On a CPU none is short: here all are."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny import REFERENCE

from harness import Report, Submission, Verdict, grade
from harness.clock.stage import TimeStage
from harness.load.problem import Problem
from harness.workers.loop import Loop
from harness.workers.prepared import FURTHER
from harness.workers.worker import Worker

COUNT = 1 + FURTHER
RIGHT = REFERENCE.replace("class Model(", "class ModelNew(")


@pytest.fixture
def graded(problem_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    monkeypatch.setattr(TimeStage, "_is_short", lambda *_: True)

    def graded(source: str) -> Report:
        problem = Problem.load(problem_folder())
        return grade(problem, Submission.from_source(source, "answer.py"), device="cpu", budget_s=0.5)

    return graded


def test_blocks_are_measured_in_all_by_turns_and_all_are_compared(graded: Callable[..., Report]) -> None:
    report = graded(RIGHT)
    if report.reason.code == "time.not_confirmed":
        pytest.skip("a busy machine confirms no time")
    assert report.accepted, report.reason
    assert report.timing is not None
    assert report.correctness is not None
    candidate = report.timing.candidate
    assert len(candidate.process_medians_us) == COUNT
    assert report.timing.reference.process_medians_us == []
    left, samples = iter(candidate.samples_us), [list[float]() for _ in range(COUNT)]
    for number, size in enumerate(candidate.block_sizes):
        samples[number % COUNT].extend(itertools.islice(left, size))
    assert candidate.process_medians_us == pytest.approx([statistics.median(each) for each in samples])
    assert candidate.median_us == pytest.approx(statistics.fmean(candidate.process_medians_us))
    # The last single call of each process, and of each of its loops, at the least.
    assert report.correctness.timed_calls_verified >= COUNT * 2


def scribbles(worker: Worker) -> None:
    """Has its inputs overwritten before each single call."""
    order = worker.time

    def time(loop: Loop, *rest: Any) -> Any:
        if loop.turns == 1 and loop.kind == "calls":
            worker.scribble(["pool"], [])
        return order(loop, *rest)

    worker.time = time  # type: ignore[method-assign]


def ends(worker: Worker) -> None:
    worker.process.sandboxed.kill()


@pytest.mark.parametrize(
    ("does", "verdict", "code"),
    [
        (scribbles, Verdict.WRONG_ANSWER, "output.timed_values"),
        (ends, Verdict.RUNTIME_ERROR, "run.signal"),
    ],
)
def test_what_a_further_process_does_counts_as_much(
    graded: Callable[..., Report],
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[[Worker], None],
    verdict: Verdict,
    code: str,
) -> None:
    made: list[Worker] = []
    construct = TimeStage.__init__

    def with_a_bad_one(self: TimeStage, *args: Any, again: Callable[[int], list[Worker]], **options: Any) -> None:
        def others(count: int) -> list[Worker]:
            made.extend(again(count))
            does(made[-1])
            return made

        construct(self, *args, again=others, **options)

    monkeypatch.setattr(TimeStage, "__init__", with_a_bad_one)
    report = graded(RIGHT)
    assert len(made) == FURTHER
    assert (report.verdict, report.reason.code) == (verdict, code), report.reason
