"""A Grader that lives for long holds no more after many gradings than after a few: memory, descriptors, processes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from batch_fakes import RIGHT, problem_file
from lane_calls import quick_report

from harness import Grader
from harness.batch.executor import Executor
from harness.batch.job import Job
from harness.batch.lane import Lane
from harness.report import Report, Verdict

ROOT = Path(__file__).resolve().parents[2]
SCALE = ROOT / "tests" / "attacks" / "corpus" / "problems" / "scale"


class LaneExecutor(Executor):
    """Real processes, pipes and reports; only the grading in them is made up."""

    device, kind = "a made-up device", "cpu"
    grade_slots = build_slots = 2
    builds_disturb = False

    def __init__(self) -> None:
        # Replaced a few times on the way.
        self._lanes = [Lane(calls=60), Lane(calls=60)]
        self._free: asyncio.Queue[Lane] = asyncio.Queue()
        for lane in self._lanes:
            self._free.put_nowait(lane)

    async def build(self, job: Job) -> tuple[str, ...]:
        return ()

    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        lane = await self._free.get()
        try:
            return await lane.call(quick_report, job)
        finally:
            self._free.put_nowait(lane)

    async def close(self) -> None:
        await asyncio.gather(*(lane.close() for lane in self._lanes))


@pytest.fixture
def others() -> set[psutil.Process]:
    """Processes that were there before and are none of a Grader's."""
    return set(psutil.Process().children(recursive=True))


def held(others: set[psutil.Process]) -> dict[str, int]:
    gc.collect()
    process = psutil.Process()
    children = set(process.children(recursive=True)) - others
    return {
        "bytes": process.memory_info().rss,
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "processes": len(children),
        "descriptors of processes": sum(child.num_fds() for child in children),
        "objects": len(gc.get_objects()),
    }


async def graded(grader: Grader, problem: Path, text: Callable[[int], str], numbers: range) -> None:
    async for _, report in grader.as_graded((problem, text(number)) for number in numbers):
        assert report.verdict is not Verdict.JUDGE_ERROR


def test_five_hundred_gradings_leave_nothing_behind(tmp_path: Path, others: set[psutil.Process]) -> None:
    problem = problem_file(tmp_path, "softmax")

    async def loop() -> tuple[dict[str, int], dict[str, int]]:
        async with Grader(executor=LaneExecutor()) as grader:
            await graded(grader, problem, lambda number: f"{RIGHT}# {number}\n" + "#" * 100_000, range(100))
            early = held(others)
            await graded(grader, problem, lambda number: f"{RIGHT}# {number}\n" + "#" * 100_000, range(100, 500))
            return early, held(others)

    early, late = asyncio.run(loop())
    assert late["descriptors"] <= early["descriptors"] + 2
    assert late["threads"] <= early["threads"] + 1
    assert late["processes"] == early["processes"] == 2
    assert late["descriptors of processes"] <= early["descriptors of processes"] + 2
    assert late["objects"] < early["objects"] + 2_000
    # Four hundred submissions of 0.1 MB came and went, and as many reports.
    assert late["bytes"] < early["bytes"] + 15_000_000


@pytest.mark.slow
def test_real_gradings_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: set[psutil.Process]
) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    text = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + x  # "

    async def loop() -> tuple[dict[str, int], dict[str, int]]:
        async with Grader(devices="cpu", mode="check") as grader:
            await graded(grader, SCALE, lambda number: f"{text}{number}\n", range(2))
            early = held(others)
            await graded(grader, SCALE, lambda number: f"{text}{number}\n", range(2, 5))
            return early, held(others)

    early, late = asyncio.run(loop())
    assert late["descriptors"] <= early["descriptors"] + 2
    # A prepared worker may be on its way in one of the two moments.
    assert late["processes"] <= early["processes"] + 4
    assert late["bytes"] < early["bytes"] + 15_000_000
    assert not [path for path in scratch.rglob("*") if path.is_file()]
    assert set(psutil.Process().children(recursive=True)) <= others
