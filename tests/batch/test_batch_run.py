"""What a batch asks of an executor: each content once, builds ahead, no more than there is room for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from batch_fakes import FakeExecutor, entry, index_of, report

from harness.batch.executor import Lost, NotGraded
from harness.batch.inputs import Entry
from harness.batch.job import Job, Options
from harness.batch.pipeline import TRIES, Pipeline
from harness.batch.problems import Named
from harness.batch.run import Tally, run_batch
from harness.batch.store import Store, read_results
from harness.report import Report, Verdict

BUILDS = "from torch.utils.cpp_extension import load_inline\n"


@pytest.fixture
def named(tmp_path: Path) -> Named:
    return index_of(tmp_path / "p", "softmax").named[0]


def run(tmp_path: Path, entries: list[Entry], executor: FakeExecutor, **options: object) -> Tally:
    with Store(tmp_path / "run", {}) as store:
        return asyncio.run(run_batch(entries, executor, store, Options(), **options))  # type: ignore[arg-type]


def test_equal_content_is_graded_once_and_each_has_its_own_result(tmp_path: Path, named: Named) -> None:
    executor = FakeExecutor()
    entries = [entry(named, "a"), entry(named, "b", "# other\n"), entry(named, "c"), entry(named, "d")]
    tally = run(tmp_path, entries, executor)
    assert len(executor.graded) == 2
    assert (tally.graded, tally.shared, tally.verdicts["accepted"]) == (2, 2, 4)
    results = {result.id: result for result in read_results(tmp_path / "run")}
    assert {name: result.same_as for name, result in results.items()} == {"a": None, "b": None, "c": "a", "d": "a"}
    assert results["c"].report.submission.name == "c.py"
    # And when it comes later, in another start.
    later = FakeExecutor()
    tally = run(tmp_path, [*entries, entry(named, "e")], later)
    assert (tally.before, tally.graded, tally.shared, tally.verdicts["accepted"]) == (4, 0, 1, 5)
    assert later.graded == []
    assert {result.id: result.same_as for result in read_results(tmp_path / "run")}["e"] == "a"


def test_equal_versions_are_one_problem_and_reports_keep_their_names(tmp_path: Path) -> None:
    from batch_fakes import problem_file

    from harness.batch.problems import ProblemIndex
    from harness.load.problem import Problem

    index = ProblemIndex([Problem.load(problem_file(tmp_path / "p", name)) for name in ("one", "two")])
    executor = FakeExecutor()
    run(tmp_path, [entry(index.by_name("one"), "a"), entry(index.by_name("two"), "b")], executor)
    assert len(executor.graded) == 1
    ids = {result.id: (result.problem, result.report.problem) for result in read_results(tmp_path / "run")}
    assert {name: (problem, info and info.id) for name, (problem, info) in ids.items()} == {
        "a": ("one", "one"),
        "b": ("two", "two"),
    }


def test_trials_are_gradings_of_their_own(tmp_path: Path, named: Named) -> None:
    executor = FakeExecutor()
    tally = run(tmp_path, [entry(named, "a"), entry(named, "b")], executor, trials=3)
    assert len(executor.graded) == 3
    assert (tally.total, tally.done) == (6, 6)
    assert sorted((result.id, result.attempt) for result in read_results(tmp_path / "run")) == [
        (name, attempt) for name in "ab" for attempt in (1, 2, 3)
    ]
    # More trials later: only those that are missing.
    more = FakeExecutor()
    tally = run(tmp_path, [entry(named, "a"), entry(named, "b")], more, trials=4)
    assert (tally.before, len(more.graded)) == (6, 1)


def test_builds_run_ahead_and_only_where_there_is_something_to_build(tmp_path: Path, named: Named) -> None:
    executor = FakeExecutor(slots=3)
    entries = [entry(named, f"b{number}", f"{BUILDS}# {number}\n") for number in range(8)]
    entries += [entry(named, f"p{number}", f"# {number}\n") for number in range(8)]
    run(tmp_path, entries, executor)
    assert [job.name for job in executor.built] == [f"b{number}.py" for number in range(8)]
    assert len(executor.graded) == 16
    assert executor.most == {"grade": 3, "build": 3}
    assert executor.beside


def test_where_builds_disturb_they_take_turns_with_gradings(tmp_path: Path, named: Named) -> None:
    executor = FakeExecutor(slots=2, builds_disturb=True)
    entries = [entry(named, f"s{number}", f"{BUILDS if number % 2 else ''}# {number}\n") for number in range(30)]
    run(tmp_path, entries, executor, room=8)
    assert len(executor.graded) == 30
    assert len(executor.built) == 15
    assert not executor.beside


def test_whoever_asks_for_more_than_there_is_room_for_waits(named: Named) -> None:
    async def begun() -> None:
        go_on = asyncio.Event()

        async def grade_with(_: Job) -> Report:
            await go_on.wait()
            return report()

        pipeline = Pipeline(FakeExecutor(grade_with=grade_with), room=5)
        jobs = [Job(named.problem, b"", str(number), "x", Options()) for number in range(6)]
        tasks = [await pipeline.begin(job) for job in jobs[:5]]
        assert await pipeline.begin(jobs[2]) is tasks[2]  # what is under way already takes no room
        sixth = asyncio.create_task(pipeline.begin(jobs[5]))
        await asyncio.sleep(0.02)
        assert not sixth.done()
        go_on.set()
        await (await sixth)
        assert all(task.done() for task in tasks)

    asyncio.run(begun())


@pytest.mark.parametrize(("losses", "verdict", "gradings"), [(2, "accepted", 3), (5, "judge_error", TRIES)])
def test_a_lost_grading_is_tried_again_a_few_times(
    tmp_path: Path, named: Named, losses: int, verdict: str, gradings: int
) -> None:
    left = losses

    async def grade_with(job: Job) -> Report:
        nonlocal left
        left -= 1
        if left >= 0:
            raise Lost("the process ended")
        return report()

    executor = FakeExecutor(grade_with=grade_with)
    tally = run(tmp_path, [entry(named, "a")], executor)
    assert tally.verdicts == {verdict: 1}
    assert len(executor.graded) == gradings


def test_what_nobody_can_grade_has_a_report_and_stops_nothing(tmp_path: Path, named: Named) -> None:
    async def grade_with(job: Job) -> Report:
        if job.name == "a.py":
            raise NotGraded("the reference can't be timed")
        return report()

    run(tmp_path, [entry(named, "a"), entry(named, "b", "# b\n")], FakeExecutor(grade_with=grade_with))
    first, second = sorted(read_results(tmp_path / "run"), key=lambda result: result.id)
    assert first.report.verdict is Verdict.JUDGE_ERROR
    assert (first.report.reason.code, first.report.reason.message) == (
        "judge.not_graded",
        "the reference can't be timed",
    )
    assert second.report.accepted


def test_when_it_is_ended_what_is_under_way_ends_and_what_is_done_stays(tmp_path: Path, named: Named) -> None:
    async def grade_with(job: Job) -> Report:
        if job.name > "s3.py":
            await asyncio.sleep(1000)
        return report()

    executor = FakeExecutor(grade_with=grade_with)
    entries = [entry(named, f"s{number}", f"# {number}\n") for number in range(9)]

    async def ended() -> None:
        with Store(tmp_path / "run", {}) as store:
            batch = asyncio.create_task(run_batch(entries, executor, store, Options()))
            while len(executor.graded) < 6:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            batch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await batch
            assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(ended())
    assert sorted(result.id for result in read_results(tmp_path / "run")) == ["s0", "s1", "s2", "s3"]
