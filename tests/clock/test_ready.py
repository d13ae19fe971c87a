"""What is done to a device before and after a grading, in which order. No GPU: each part is a fake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.clock import ready as module
from harness.clock.clock_lock import ClockLock
from harness.clock.health import KernelRun
from harness.clock.readings import CpuSource, Reading
from harness.clock.ready import ready
from harness.machine.device import Device
from harness.report import DeviceInfo, Warning_

PLACE = torch.device("cpu")
CPU = Device("cpu", None, None, DeviceInfo(kind="cpu", name="CPU", torch="2", python="3", platform="Linux"))
GPU = Device("cuda", 0, "GPU-1", DeviceInfo(kind="cuda", name="GPU", torch="2", python="3", platform="Linux"))


@pytest.fixture
def used() -> list[int]:
    """Bytes in use on the GPU."""
    return [1 << 30]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, used: list[int]) -> list[str]:
    """What happened to a GPU that is fit, and whose clocks were left locked."""
    happened: list[str] = []

    class Probe:
        def __init__(self, *_: object) -> None:
            pass

        def reading(self) -> Reading:
            return Reading(utilisation=0.0, memory_used_bytes=used[0])

        def kernel(self) -> KernelRun:
            happened.append("kernel")
            return KernelRun(True, 35.0)

    @contextlib.contextmanager
    def locked(uuid: str | None) -> Iterator[ClockLock]:
        happened.append("lock")
        yield ClockLock(False, "The clocks can't be locked: that takes root.")
        happened.append("unlock")

    def free(uuid: str | None) -> str:
        happened.append("free")
        return "They have been unlocked."

    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module, "DeviceProbe", Probe)
    monkeypatch.setattr(module, "locked_clocks", locked)
    monkeypatch.setattr(module, "free_left_behind", free)
    return happened


def codes(warnings: list[Warning_]) -> list[str]:
    return [warning.code for warning in warnings]


def test_a_gpu_is_freed_looked_at_and_locked_for_the_timing_only(steps: list[str]) -> None:
    warnings: list[Warning_] = []
    with ready(GPU, PLACE, warnings) as usable:
        steps.append("checked")
        with usable.clocks_locked(True):
            steps.append("timed")
        usable.look_after()
    assert steps == ["free", "kernel", "checked", "lock", "timed", "unlock"]
    assert codes(warnings) == ["device.clocks_left_locked", "device.clocks_not_locked"]


def test_clocks_are_left_alone_unless_asked_for(steps: list[str]) -> None:
    with ready(GPU, PLACE, []) as usable, usable.clocks_locked(False):
        pass
    assert steps == ["free", "kernel"]


def test_memory_that_did_not_come_back_is_said(steps: list[str], used: list[int]) -> None:
    warnings: list[Warning_] = []
    with ready(GPU, PLACE, warnings) as usable:
        used[0] = 2 << 30
        usable.look_after()
    assert codes(warnings)[-1] == "device.memory_kept"


def test_memory_of_workers_that_were_ready_before_hides_nothing(steps: list[str], used: list[int]) -> None:
    warnings: list[Warning_] = []
    used[0] = 3 << 30  # two of it are workers'
    with ready(GPU, PLACE, warnings, held_bytes=1 << 30) as usable:
        usable.hold(1 << 30)  # it was idle, and is the grading's now
        used[0] = 2 << 30  # they are gone, and one has stayed
        usable.look_after()
    assert [warning.code for warning in warnings][-1] == "device.memory_kept"
    assert warnings[-1].evidence == {"before_bytes": 1 << 30, "after_bytes": 2 << 30}


def test_a_cpu_needs_nothing_and_has_no_clocks_to_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path))
    warnings: list[Warning_] = []
    with ready(CPU, PLACE, warnings) as usable, usable.clocks_locked(False):
        assert isinstance(usable.source, CpuSource)
        usable.look_after()
    assert warnings == []
    with ready(CPU, PLACE, warnings) as usable, usable.clocks_locked(True):
        pass
    assert codes(warnings) == ["device.clocks_not_locked"]
