"""Prepared workers: used once, replaced, never handed out when they are not what is asked for, and never left behind.

What runs in them here only speaks as a worker does; whole gradings with them are in grading/test_prepared_gradings.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from prepared_fakes import QuickSandbox, terms

from harness.machine.device import Device, open_device
from harness.machine.idle import idle
from harness.machine.locks import DeviceLock
from harness.machine.place import Place
from harness.report import DeviceInfo
from harness.sandbox import DockerSandbox, Sandbox
from harness.workers import prepared as prepared_module
from harness.workers import process as worker_process
from harness.workers import worker as worker_module
from harness.workers.prepared import EarlyWorkers, PreparedWorkers
from harness.workers.process import Terms
from harness.workers.worker import Worker


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of our own, a machine whose free memory does not move, and a pool that looks often."""
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setattr(worker_process, "spare_memory", lambda: 8 << 30)
    monkeypatch.setattr(prepared_module, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(prepared_module, "_LOCK_EVERY_S", 0.02)


@pytest.fixture
def sandbox() -> QuickSandbox:
    """Of workers that are ready at once."""
    return QuickSandbox()


@pytest.fixture
def pool(sandbox: QuickSandbox) -> Iterator[PreparedWorkers]:
    """Two of them."""
    with PreparedWorkers(open_device("cpu"), sandbox) as pool:
        yield pool
    assert_gone(pid for started in sandbox.started for pid in [started.pid, *started.pids()])


def assert_gone(pids: Any) -> None:
    """Fail unless all of these have ended."""
    left = [process for pid in pids if psutil.pid_exists(pid) for process in [psutil.Process(pid)]]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def becomes(true: Callable[[], bool]) -> bool:
    """Whether it does, before long."""
    until = time.monotonic() + 20
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_each_is_used_once_and_others_take_their_place(pool: PreparedWorkers, sandbox: QuickSandbox) -> None:
    seen = set()
    for _ in range(3):
        assert pool.wait(20)
        with pool.in_use():
            processes = pool.take(terms(sandbox), 3)
            assert len(processes) == 2
            assert pool.take(terms(sandbox), 1) == []
            assert all(process.hello and process.opened and process.stopwatch for process in processes)
            seen |= {process.sandboxed.pid for process in processes}
            for process in processes:
                process.close()
    assert len(seen) == 6
    assert pool.wait(20)


def test_nothing_is_shared_between_two(pool: PreparedWorkers, sandbox: QuickSandbox) -> None:
    assert pool.wait(20)
    with pool.in_use():
        one, other = pool.take(terms(sandbox), 2)
        assert one.stopwatch is not None
        assert other.stopwatch is not None
        pages = [os.fstat(each.stopwatch.page_fd).st_ino for each in (one, other) if each.stopwatch]
        sockets = [os.fstat(each.channel.fileno()).st_ino for each in (one, other)]
        assert len({*pages, *sockets}) == 4
        one.close()
        other.close()


def test_nothing_starts_while_a_grading_runs(pool: PreparedWorkers, sandbox: QuickSandbox) -> None:
    assert pool.wait(20)
    with pool.in_use():
        (process,) = pool.take(terms(sandbox), 1)
        process.close()
        started = len(sandbox.started)
        time.sleep(0.3)
        assert len(sandbox.started) == started
    assert becomes(lambda: len(sandbox.started) > started)


def test_nothing_starts_while_another_process_has_the_device(sandbox: QuickSandbox) -> None:
    with DeviceLock("cpu").held(), PreparedWorkers(open_device("cpu"), sandbox) as pool:
        time.sleep(0.2)
        assert sandbox.started == []
        # But for whoever needs one now, it does: waiting would help nobody.
        with pool.in_use():
            (process,) = pool.take(terms(sandbox), 1)
            assert process.hello
            assert not process.opened
            process.close()


def test_a_context_is_made_only_with_the_lock_held(sandbox: QuickSandbox) -> None:
    with PreparedWorkers(open_device("cpu"), sandbox, contexts=False) as pool:
        assert pool.wait(20)
        with pool.in_use():
            (process,) = pool.take(terms(sandbox), 1)
            assert process.hello
            assert not process.opened
            process.close()


def test_where_others_take_turns_all_start_while_one_of_them_has_the_device(sandbox: QuickSandbox) -> None:
    """What a grading needs later must not import torch while it has the device."""
    with DeviceLock("cpu").held(), PreparedWorkers(open_device("cpu"), sandbox, count=3, contexts=False) as pool:
        for begun in (3, 6):
            with pool.in_use():
                processes = pool.take(terms(sandbox), 1)
                assert becomes(lambda begun=begun: len(sandbox.started) == begun)  # type: ignore[misc]
                processes += pool.take(terms(sandbox), 2)
                assert len(processes) == 3
                assert len(sandbox.started) == begun
                for process in processes:
                    process.close()


class FakeContext:
    """This process's own on a GPU of which each context takes 600 MB."""

    idle = False

    def __init__(self, device: Device, sandbox: Sandbox) -> None:
        self.used = 100
        self.is_idle()

    def memory_used(self) -> int:
        self.used += 300
        return self.used * 10**6

    def is_idle(self) -> None:
        FakeContext.idle = True

    def has_work(self) -> None:
        FakeContext.idle = False

    close = has_work


def test_on_a_gpu_what_a_context_takes_is_known_and_who_has_one_is_listed_until_it_has_work(
    sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_module, "_OwnContext", FakeContext)
    rehearsed: list[Worker] = []
    monkeypatch.setattr(Worker, "rehearse", lambda worker: rehearsed.append(worker))
    monkeypatch.setattr(worker_module, "image_for", lambda _: b"")
    info = DeviceInfo(kind="cuda", name="GPU", torch="2", python="3", platform="Linux")
    device = Device("cuda", 0, "GPU-1", info)
    with PreparedWorkers(device, sandbox, count=2) as pool:
        assert pool.wait(20)
        assert len(rehearsed) == 2
        assert FakeContext.idle
        assert idle("GPU-1") == set(pool.pids)
        with pool.in_use():
            assert not FakeContext.idle
            one, other = pool.take(Terms(sandbox, device.place, None), 2)
            assert (one.device_bytes, other.device_bytes) == (300 * 10**6, 300 * 10**6)
            # Still idle: a grading may have to wait for the device before a submission gets into them.
            assert idle("GPU-1") == {*one.sandboxed.pids(), *other.sandboxed.pids()}
            one.has_work()
            assert idle("GPU-1") == set(other.sandboxed.pids())
            one.close()
            other.close()
        assert FakeContext.idle
    assert idle("GPU-1") == set()


def test_another_limit_of_memory_is_another_worker(pool: PreparedWorkers, sandbox: QuickSandbox) -> None:
    assert pool.wait(20)
    with pool.in_use():
        assert pool.take(terms(sandbox, memory_gb=1.0), 2) == []
    assert becomes(lambda: len(sandbox.limits) == 4)
    assert pool.wait(20)
    # It asks for the same again, most likely.
    assert {limits.memory_bytes for limits in sandbox.limits[2:]} == {10**9}
    with pool.in_use():
        (process,) = pool.take(terms(sandbox, memory_gb=1.0), 1)
        process.close()


def test_a_limit_that_the_machine_can_keep_no_more_is_none(
    pool: PreparedWorkers, sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.wait(20)
    for spare in (4 << 30, 16 << 30):  # less than was promised; so much that a fresh one would get far more
        monkeypatch.setattr(worker_process, "spare_memory", lambda spare=spare: spare)
        with pool.in_use():
            assert pool.take(terms(sandbox), 2) == []
        assert pool.wait(20)


def test_another_device_sandbox_or_environment_gets_none(
    pool: PreparedWorkers, sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.wait(20)
    asked = terms(sandbox)
    with pool.in_use():
        assert pool.take(worker_process.Terms(DockerSandbox(), asked.place, None), 2) == []
        other_place = type(asked.place)("cuda", 0, "GPU-1", ())
        assert pool.take(worker_process.Terms(sandbox, other_place, None), 2) == []
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        assert pool.take(asked, 2) == []


def test_what_is_not_needed_does_not_import_beside_a_grading(sandbox: QuickSandbox) -> None:
    sandbox.slow = True
    with PreparedWorkers(open_device("cpu"), sandbox) as pool:
        assert becomes(lambda: len(sandbox.started) == 2)
        with pool.in_use():
            assert pool.take(terms(sandbox), 0) == []
            assert all(started.poll() for started in sandbox.started)
        sandbox.slow = False
        assert pool.wait(20)
        with pool.in_use():
            (process,) = pool.take(terms(sandbox), 1)
            process.close()
            # But one that is ready may wait: it does nothing.
            assert len(pool.pids) > 0
        assert len(sandbox.started) == 4


def test_one_that_died_is_replaced_and_not_handed_out(pool: PreparedWorkers, sandbox: QuickSandbox) -> None:
    assert pool.wait(20)
    first = [started.pid for started in sandbox.started]
    with pool.in_use():
        for started in sandbox.started:
            os.kill(started.pid, signal.SIGKILL)
        assert becomes(lambda: all(started.poll() for started in sandbox.started))
        assert pool.take(terms(sandbox), 2) == []
    assert becomes(lambda: len(sandbox.started) == 4)
    assert pool.wait(20)
    with pool.in_use():
        (process,) = pool.take(terms(sandbox), 1)
        assert process.sandboxed.pid not in first
        process.close()


def test_one_that_died_unasked_is_replaced(pool: PreparedWorkers, sandbox: QuickSandbox) -> None:
    assert pool.wait(20)
    os.kill(sandbox.started[0].pid, signal.SIGKILL)
    assert becomes(lambda: len(sandbox.started) == 3)
    assert pool.wait(20)


def test_old_ones_are_replaced(sandbox: QuickSandbox) -> None:
    with PreparedWorkers(open_device("cpu"), sandbox, count=1, stale_s=0.5) as pool:
        assert becomes(lambda: len(sandbox.started) >= 3)
        assert becomes(lambda: sandbox.started[0].poll() is not None)
        del pool


def test_one_whose_context_is_lost_is_not_handed_out(sandbox: QuickSandbox) -> None:
    sandbox.lost = True
    with PreparedWorkers(open_device("cpu"), sandbox) as pool:
        assert pool.wait(20)
        with pool.in_use():
            assert pool.take(terms(sandbox), 2) == []


def test_where_nothing_can_be_started_a_grading_gets_none_and_others_are_tried_later(
    sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_module, "_RETRY_S", (0.1,))
    sandbox.broken = True
    with PreparedWorkers(open_device("cpu"), sandbox) as pool:
        time.sleep(0.1)
        with pool.in_use():
            assert pool.take(terms(sandbox), 2) == []
        sandbox.broken = False
        assert pool.wait(20)


def test_what_is_on_its_way_is_waited_for(sandbox: QuickSandbox) -> None:
    for _ in range(5):
        with PreparedWorkers(open_device("cpu"), sandbox, count=1) as pool:
            assert becomes(lambda pool=pool: pool._slots[0].preparing is not None)
            with pool.in_use():
                (process,) = pool.take(terms(sandbox), 1)
                assert process.hello
                process.close()


def test_closing_at_any_moment_leaves_nothing(sandbox: QuickSandbox, tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for pause in (0.0, 0.02, 0.1, 0.3):
        pool = PreparedWorkers(open_device("cpu"), sandbox)
        time.sleep(pause)
        pool.close()
        assert pool.pids == []
    assert_gone(started.pid for started in sandbox.started)
    assert [thread for thread in threading.enumerate() if thread.name.startswith("prepar")] == []
    assert len(set(os.listdir("/proc/self/fd")) - before) == 0
    assert [path for path in (tmp_path / "locks").iterdir() if path.suffix != ".lock"] == []


def test_one_grading_is_enough_where_only_one_comes(sandbox: QuickSandbox) -> None:
    with PreparedWorkers(open_device("cpu"), sandbox, once=True) as pool:
        assert pool.wait(20)
        with pool.in_use():
            (process,) = pool.take(terms(sandbox), 1)
            process.close()
        time.sleep(0.3)
        assert len(sandbox.started) == 2


def test_a_killed_owner_leaves_nothing(tmp_path: Path) -> None:
    script = Path(__file__).with_name("prepared_fakes.py")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) >= 4
        family = psutil.Process(owner.pid).children(recursive=True)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert_gone(pids)
    assert_gone(child.pid for child in family)


def test_early_ones_are_taken_once_and_the_rest_ends(sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_module.sandboxes, "by_name", lambda _: sandbox)
    with EarlyWorkers("quick", open_device("cpu").place) as early:
        early.start(None, 3)
        first, second = early.take(terms(sandbox), 2)
        assert first.sandboxed.pid != second.sandboxed.pid
        assert early.take(terms(sandbox, memory_gb=1.0), 1) == []
        with contextlib.closing(first), contextlib.closing(second):
            assert early.take(terms(sandbox), 1) == []
    assert_gone(started.pid for started in sandbox.started)


GPU = Place("cuda", 0, "GPU-that-nobody-has")


def all_touched(early: EarlyWorkers) -> bool:
    return bool(early._touched) and all(touched.done() for touched in early._touched.values())


def test_early_ones_have_their_contexts_while_the_grader_is_not_ready_yet(
    sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_module.sandboxes, "by_name", lambda _: sandbox)
    with EarlyWorkers("quick", GPU) as early:
        early.start(None, 2)
        assert becomes(lambda: len(early._touched) == 2 and all_touched(early))
        one, other = early.take(Terms(sandbox, GPU, None), 2)
        with contextlib.closing(one), contextlib.closing(other):
            assert one.has_context
            assert not one.opened
            # It has done nothing of anybody's yet, so it disturbs nobody who has the device.
            assert idle("GPU-that-nobody-has") >= {*one.sandboxed.pids(), *other.sandboxed.pids()}
            one.has_work()
            assert not idle("GPU-that-nobody-has") & {*one.sandboxed.pids()}
    assert_gone(started.pid for started in sandbox.started)


@pytest.mark.parametrize("slow", [False, True])
def test_whom_the_grader_asks_for_or_whose_device_is_taken_makes_his_context_later(
    sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    monkeypatch.setattr(prepared_module.sandboxes, "by_name", lambda _: sandbox)
    sandbox.slow = slow  # it has not even said hello when it is asked for
    with DeviceLock("GPU-that-nobody-has").held(), EarlyWorkers("quick", GPU) as early:
        early.start(None, 1)
        assert becomes(lambda: bool(early._touched) and (slow or all_touched(early)))
        began = time.monotonic()
        (process,) = early.take(Terms(sandbox, GPU, None), 1)
        assert time.monotonic() - began < 10
        with contextlib.closing(process):
            assert process.alive
            assert not process.has_context
            assert (process.greeting is None) == slow


def test_whose_context_can_not_be_made_is_of_no_use(sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_module.sandboxes, "by_name", lambda _: sandbox)
    sandbox.untouchable = True
    with EarlyWorkers("quick", GPU) as early:
        early.start(None, 1)
        assert becomes(lambda: all_touched(early))
        assert early.take(Terms(sandbox, GPU, None), 1) == []
    assert_gone(started.pid for started in sandbox.started)


def test_what_a_grading_leaves_goes_to_it_only_where_no_other_comes(
    pool: PreparedWorkers, sandbox: QuickSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_module.sandboxes, "by_name", lambda _: sandbox)
    with EarlyWorkers("quick", open_device("cpu").place) as early:
        early.start(None, 3)
        taken = early.take(terms(sandbox), 1)
        left = early.leave(terms(sandbox))
        assert (len(taken), len(left)) == (1, 2)
        for process in taken + left:
            process.close()
    assert pool.wait(20)
    with pool.in_use():
        assert pool.leave(terms(sandbox)) == []
