"""A Grader in a loop: order, room, cancelling; and rewards from verdicts and figures alone."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from batch_fakes import RIGHT, FakeExecutor, problem_file, report
from hypothesis import given
from hypothesis import strategies as st

from harness import Grader, ProblemError, Reward, SubmissionError, reward
from harness.batch.job import Job
from harness.batch.reward import BEST
from harness.batch.reward import RIGHT as FOR_RIGHT
from harness.report import Report, Verdict


def test_reports_come_in_the_order_of_the_pairs_and_equal_pairs_share_a_grading(tmp_path: Path) -> None:
    problem = problem_file(tmp_path, "softmax")
    file = tmp_path / "sub.py"
    file.write_text("# from a file\n")

    async def grade_with(job: Job) -> Report:
        text = job.content.decode()
        await asyncio.sleep(0.02 if "slow" in text else 0)
        return report(message=text, sha256=job.sha256)

    async def graded() -> list[Report]:
        async with Grader(executor=executor) as grader:
            return await grader.grade_many([(problem, "slow"), (problem, file), (problem, "slow"), (str(problem), "x")])

    executor = FakeExecutor(grade_with=grade_with)
    reports = asyncio.run(graded())
    assert [each.reason.message for each in reports] == ["slow", "# from a file\n", "slow", "x"]
    assert len(executor.graded) == 3
    assert executor.closed


def test_pairs_are_taken_only_as_there_is_room(tmp_path: Path) -> None:
    problem = problem_file(tmp_path, "softmax")
    executor = FakeExecutor(slots=1)
    ahead: list[int] = []

    async def graded() -> None:
        async with Grader(executor=executor, room=3) as grader:

            def pairs():  # type: ignore[no-untyped-def]
                for number in range(20):
                    ahead.append(number - len(executor.graded))
                    yield problem, f"# {number}"

            assert len(await grader.grade_many(pairs())) == 20

    asyncio.run(graded())
    assert max(ahead) <= 3


def test_cancelling_ends_what_nobody_else_waits_for(tmp_path: Path) -> None:
    problem = problem_file(tmp_path, "softmax")
    ended: list[bytes] = []

    async def grade_with(job: Job) -> Report:
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            ended.append(job.content)
            raise
        return report()

    async def graded() -> None:
        executor = FakeExecutor(grade_with=grade_with)
        async with Grader(executor=executor) as grader:
            shared = asyncio.create_task(grader.grade(problem, "shared"))
            many = asyncio.create_task(grader.grade_many([(problem, "shared"), (problem, "own"), (problem, "own 2")]))
            while len(executor.graded) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            many.cancel()
            await asyncio.sleep(0)
            again = asyncio.create_task(grader.grade(problem, "own"))  # while the first of that content is ending
            with pytest.raises(asyncio.CancelledError):
                await many
            assert ended == [b"own"]
            assert (await again).accepted
            assert (await shared).accepted
            # The Grader goes on.
            assert (await grader.grade(problem, "next")).accepted
            left = asyncio.create_task(grader.grade(problem, "left"))
            await asyncio.sleep(0.02)
        assert ended[-1] == b"left"
        with pytest.raises(asyncio.CancelledError):
            await left

    asyncio.run(graded())


def test_wrong_use_is_an_exception(tmp_path: Path) -> None:
    problem = problem_file(tmp_path, "softmax")

    async def graded() -> None:
        grader = Grader(executor=FakeExecutor())
        with pytest.raises(RuntimeError, match="async with"):
            await grader.grade(problem, RIGHT)
        async with grader:
            with pytest.raises(ProblemError):
                await grader.grade_many([(tmp_path / "nowhere", RIGHT)])
            with pytest.raises(SubmissionError):
                await grader.grade(problem, tmp_path / "nowhere.py")

    asyncio.run(graded())


def test_memory_does_not_grow_with_the_gradings(tmp_path: Path) -> None:
    import gc

    problem = problem_file(tmp_path, "softmax")

    async def graded() -> list[int]:
        async with Grader(executor=FakeExecutor()) as grader:
            counts = []
            for turn in range(5):
                await grader.grade_many([(problem, f"# {turn} {number}") for number in range(100)])
                gc.collect()
                counts.append(sum(type(each) in (asyncio.Task, Job, Report) for each in gc.get_objects()))
            return counts

    counts = asyncio.run(graded())
    # The executor here keeps its 100 jobs a turn, to count them; what is ours keeps none.
    assert counts[-1] - counts[1] <= 3 * 101, counts


def test_a_reward_by_hand() -> None:
    assert reward(report(Verdict.WRONG_ANSWER, "output.values")) == Reward(0.0, True, False, None)
    assert reward(report()) == Reward(FOR_RIGHT, True, True, None)
    assert reward(report(speedup=0.5)).value == FOR_RIGHT
    assert reward(report(speedup=math.sqrt(BEST))).value == pytest.approx((1 + FOR_RIGHT) / 2)
    assert reward(report(speedup=1000.0)).value == 1
    assert reward(report(speedup=8.0, low=0.0)) == Reward(FOR_RIGHT, True, True, None)
    assert reward(report(speedup=8.0, low=2.0)) == reward(report(speedup=2.0))


@pytest.mark.parametrize("verdict", [Verdict.JUDGE_ERROR, Verdict.UNSTABLE])
def test_what_says_nothing_of_the_submission_does_not_count(verdict: Verdict) -> None:
    assert reward(report(verdict, "a.b", speedup=5.0)) == Reward(0.0, False, False, None)


figures = st.floats(allow_nan=True, allow_infinity=True)


@given(st.sampled_from(list(Verdict)), figures, figures)
def test_a_reward_is_bounded_whatever_the_figures(verdict: Verdict, speedup: float, low: float) -> None:
    found = reward(report(verdict, "a.b", speedup=speedup, low=low))
    assert 0 <= found.value <= 1
    assert found.value == 0 or verdict is Verdict.ACCEPTED


@given(st.floats(0.01, 100), st.floats(1, 10))
def test_faster_is_never_worth_less(speedup: float, factor: float) -> None:
    assert reward(report(speedup=speedup)).value <= reward(report(speedup=speedup * factor)).value


@given(st.text(), st.text())
def test_no_text_changes_a_reward(message: str, log: str) -> None:
    assert reward(report(speedup=3.0, message=message, log=log)) == reward(report(speedup=3.0))
