"""A server's agents as a batch's executor, over real HTTP; the agent says what it is told to."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server_fakes import SOURCE, FakeAgent, Person, listening

from harness.batch.executor import Gone, NotGraded
from harness.batch.inputs import Entry
from harness.batch.job import Job, Options
from harness.batch.problems import Named
from harness.batch.run import run_batch
from harness.batch.server import ServerExecutor
from harness.batch.store import Store, read_results
from harness.load.problem import Problem
from server.services import Services


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Iterator[Any]:
    """One kind of store is enough here."""
    import shutil

    from server.store import Database

    shutil.copy(sqlite_template, tmp_path / "store.db")
    made = Database.file(tmp_path / "store.db")
    yield made
    made.close()


@pytest.fixture
def problem(problems: Path) -> Problem:
    return Problem.load(problems / "scaled")


@pytest.fixture
def agent(worker: Person, problem: Problem) -> FakeAgent:
    return FakeAgent(worker, {"scaled": problem.version})


def job(problem: Problem, number: int = 0) -> Job:
    content = f"{SOURCE}# {number}\n".encode()
    return Job(problem, content, hashlib.sha256(content).hexdigest(), f"s{number}.py", Options())


def with_agent(agent: FakeAgent, say: Callable[[dict[str, Any]], dict[str, Any]], work: Callable[[], Any]) -> Any:
    """Do the work while the agent grades whatever there is."""
    over = threading.Event()

    def grade() -> None:
        while not over.wait(0.02):
            if (found := agent.claim()) is not None:
                agent.report(found, **say(found))

    thread = threading.Thread(target=grade)
    thread.start()
    try:
        return work()
    finally:
        over.set()
        thread.join()


def test_a_batch_is_graded_by_agents_and_a_killed_one_finds_its_gradings(
    serving: Services, ada: Person, agent: FakeAgent, problem: Problem, tmp_path: Path
) -> None:
    named = Named("scaled", None, problem)
    entries = [
        Entry(f"s{n}", named, f"s{n}.py", None, each.content, each.sha256)
        for n in range(4)
        for each in [job(problem, n)]
    ]
    graded: Counter[str] = Counter()

    def say(work: dict[str, Any]) -> dict[str, Any]:
        graded[work["source"]] += 1
        bad = "# 3" in work["source"]
        return {"verdict": "wrong_answer", "code": "output.values"} if bad else {}

    with listening(serving) as url:

        async def batch(run: str) -> None:
            executor = await ServerExecutor.connect(url, ada.key)
            assert (executor.device, executor.kind, executor.grade_slots) == ("AMD EPYC", "cpu", 2)
            try:
                with Store(tmp_path / run, {}) as store:
                    await run_batch(entries, executor, store, Options())
            finally:
                await executor.close()

        with_agent(agent, say, lambda: asyncio.run(batch("one")))
        # The same with nothing of its own left, as after a kill before anything was written.
        with_agent(agent, say, lambda: asyncio.run(batch("two")))
    for run in ("one", "two"):
        verdicts = {result.id: result.report.verdict.value for result in read_results(tmp_path / run)}
        assert verdicts == {"s0": "accepted", "s1": "accepted", "s2": "accepted", "s3": "wrong_answer"}
    assert sorted(graded.values()) == [1, 1, 1, 1]


def test_a_failure_of_the_grader_is_no_answer_for_the_next_batch(
    serving: Services, ada: Person, agent: FakeAgent, problem: Problem
) -> None:
    answers = iter([{"verdict": "judge_error", "code": "judge.internal"}, {}])

    with listening(serving) as url:

        async def grade() -> str:
            executor = await ServerExecutor.connect(url, ada.key)
            try:
                return (await executor.grade(job(problem), ())).verdict.value
            finally:
                await executor.close()

        verdicts = [with_agent(agent, lambda _: next(answers), lambda: asyncio.run(grade())) for _ in range(2)]
    assert verdicts == ["judge_error", "accepted"]


def test_what_does_not_fit_is_refused(serving: Services, ada: Person, agent: FakeAgent, problem: Problem) -> None:
    with listening(serving) as url:

        async def refused() -> None:
            with pytest.raises(Gone, match="nobody who grades on cuda"):
                await ServerExecutor.connect(url, ada.key, "cuda")
            executor = await ServerExecutor.connect(url, ada.key)
            try:
                for other, says in (
                    (job(replace(problem, version="ab" * 32)), "another version than ours"),
                    (job(replace(problem, id="nothing")), "the server says"),
                    (replace(job(problem), content=b"\xff"), "not UTF-8"),
                    (replace(job(problem), options=Options(budget_s=1.0)), "its own budget"),
                ):
                    with pytest.raises(NotGraded, match=says):
                        await executor.grade(other, ())
            finally:
                await executor.close()

        asyncio.run(refused())
    with pytest.raises(Gone, match="can't be reached"):
        asyncio.run(ServerExecutor.connect("http://127.0.0.1:1", ada.key))


def test_who_gives_up_cancels_it_there(serving: Services, ada: Person, agent: FakeAgent, problem: Problem) -> None:
    with listening(serving) as url:

        async def given_up() -> None:
            executor = await ServerExecutor.connect(url, ada.key)
            task = asyncio.create_task(executor.grade(job(problem), ()))
            while not ada.get("/v1/submissions").json()["items"]:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await executor.close()

        asyncio.run(given_up())
    (found,) = ada.get("/v1/submissions").json()["items"]
    assert found["state"] == "cancelled"
