"""A lane's process: its calls, its death, and its end with whoever started it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import lane_calls
import psutil
import pytest

from harness.batch.lane import Lane, LaneLost

ROOT = Path(__file__).resolve().parents[2]


def until(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def gone(pid: int) -> bool:
    """Within a while, and not as a zombie."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.01)
    return False


def test_calls_share_a_process_whatever_they_raise_and_a_dead_one_is_replaced() -> None:
    async def calls() -> None:
        lane = Lane()
        try:
            first = await lane.call(lane_calls.pid)
            assert first != os.getpid()
            with pytest.raises(ValueError, match="no good"):
                await lane.call(lane_calls.fail, "no good")
            with pytest.raises(RuntimeError, match="Awkward: 1 and 2"):
                await lane.call(lane_calls.fail_awkwardly)
            assert await lane.call(lane_calls.pid) == first
            with pytest.raises(LaneLost, match="exit code 7"):
                await lane.call(lane_calls.leave, 7)
            with pytest.raises(LaneLost, match="signal 9"):
                await lane.call(lane_calls.kill)
            last = await lane.call(lane_calls.pid)
            assert last != first
        finally:
            await lane.close()
        assert gone(last)
        assert lane.pid is None

    asyncio.run(calls())


def test_after_a_number_of_calls_comes_a_fresh_process() -> None:
    async def calls() -> list[int]:
        lane = Lane(calls=2)
        try:
            return [await lane.call(lane_calls.pid) for _ in range(5)]
        finally:
            await lane.close()

    first, second, third, fourth, fifth = asyncio.run(calls())
    assert first == second
    assert third == fourth
    assert len({first, third, fifth}) == 3


def test_a_cancelled_call_cleans_up_and_ends(tmp_path: Path) -> None:
    async def calls() -> None:
        lane = Lane()
        call = asyncio.create_task(lane.call(lane_calls.linger, str(tmp_path)))
        pid = int(await asyncio.to_thread(until, tmp_path / "begun"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (tmp_path / "cleaned up").exists()
        assert gone(pid)
        # Also when it had not even begun; and the lane can be used again.
        call = asyncio.create_task(lane.call(lane_calls.linger, str(tmp_path)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await lane.call(lane_calls.pid) != pid
        await lane.close()

    asyncio.run(calls())


def test_a_call_cancelled_at_its_very_end_does_no_harm_to_the_next() -> None:
    async def calls() -> None:
        lane = Lane()
        try:
            for wait_s in (0.0001, 0.0002, 0.0004, 0.0008):
                await lane.call(lane_calls.pid)
                call = asyncio.create_task(lane.call(lane_calls.pid))
                await asyncio.sleep(wait_s)
                call.cancel()
                await asyncio.wait([call])
                assert await lane.call(lane_calls.pid) > 0
        finally:
            await lane.close()

    asyncio.run(calls())


def test_the_process_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, lane_calls; from harness.batch.lane import Lane\n"
        "asyncio.run(Lane().call(lane_calls.linger, sys.argv[1]))"
    )
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONPATH": path})
    pid = int(until(tmp_path / "begun"))
    assert psutil.pid_exists(pid)
    owner.kill()
    owner.wait()
    assert gone(pid)
