"""NVML's answers become readings, and its refusals become gaps in them. No GPU: the library is a fake."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clock.readings import CpuSource, NvmlSource, Process, Reading, family, source_of, throttle_names


class NVMLError(Exception):
    """As pynvml's."""


class FakeNvml:
    """One GPU, of UUID `GPU-1`; what `refused` names is not supported."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("nvml") and name in self.refused:

            def refuse(*_: object) -> None:
                raise NVMLError("not supported")

            return refuse
        return found

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != "GPU-1":
            raise NVMLError("not found")
        return "handle"

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return 0x44

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return 0x1

    def nvmlDeviceGetClockInfo(self, handle: str, which: int) -> int:
        if handle != "handle":
            raise NVMLError("no handle")
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 412_500

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(gpu=37, memory=5)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(used=123, total=1000)

    def nvmlDeviceGetTemperature(self, handle: str, which: int) -> int:
        return 55

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=os.getpid()), SimpleNamespace(pid=2**22 + 1)]


def test_a_gpu_tells_everything() -> None:
    reading = NvmlSource("GPU-1", FakeNvml(), family).full()
    assert reading == Reading(
        sm_clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=55,
        power_w=412.5,
        throttle=("sw_power_cap", "hw_thermal_slowdown"),
        other_processes=(Process(2**22 + 1),),
        utilisation=0.37,
        memory_used_bytes=123,
    )


def test_a_process_that_is_known_as_idle_is_no_other_as_long_as_it_is() -> None:
    idle = {2**22 + 1}
    source = NvmlSource("GPU-1", FakeNvml(), family, lambda: idle)
    assert source.full().other_processes == ()
    idle.clear()
    assert source.full().other_processes == (Process(2**22 + 1),)


def test_a_quick_look_asks_for_clocks_and_reasons_only() -> None:
    slow = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetTemperature")
    quick = NvmlSource("GPU-1", FakeNvml(*slow), family).quick()
    assert quick == Reading(sm_clock_mhz=1980, memory_clock_mhz=3201, throttle=("sw_power_cap", "hw_thermal_slowdown"))


def test_an_older_driver_is_asked_by_the_older_name() -> None:
    reading = NvmlSource("GPU-1", FakeNvml("nvmlDeviceGetCurrentClocksEventReasons"), family).quick()
    assert reading.throttle == ("gpu_idle",)


def test_what_is_refused_is_missing_and_no_error() -> None:
    every = tuple(name for name in dir(FakeNvml) if name.startswith("nvmlDevice"))
    assert NvmlSource("GPU-1", FakeNvml(*every), family).full() == Reading()


def test_an_unknown_gpu_has_no_clocks() -> None:
    assert NvmlSource("GPU-2", FakeNvml(), family).quick().sm_clock_mhz is None


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0, ()),
        (0x1, ("gpu_idle",)),
        (0x6C, ("sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown")),
        (0x8000, ("bit_0x8000",)),
    ],
)
def test_bits_have_names(bits: int, names: tuple[str, ...]) -> None:
    assert throttle_names(bits) == names


def test_a_cpu_tells_what_it_can_and_is_not_asked_while_it_is_timed() -> None:
    source = CpuSource()
    assert source.quick() == Reading()
    load = source.full().utilisation
    assert load is None or load >= 0


def test_there_is_a_source_for_every_device() -> None:
    with source_of("cpu", None) as source:
        assert isinstance(source, CpuSource)
    with source_of("cuda", None) as source:
        assert source.full() == Reading()
