"""What a device says of itself: clocks, temperature, power, what holds its clocks down, who else uses it.

Readings come from the driver's management library (NVML) or, for a CPU, from the operating system. They run nothing on
the device. What can't be read is None or empty, never an error: few devices, drivers and containers tell everything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from harness.machine.idle import idle

_THROTTLE = {
    0x001: "gpu_idle",
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
"""The bits nvmlClocksEventReason* (nvmlClocksThrottleReason* before driver 535), as nvml.h numbers them."""

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h: the inode of the namespace in which the machine started."""


@dataclass(frozen=True)
class Process:
    """A process that has the device open for computing."""

    pid: int
    name: str = ""
    """Empty where it can't be seen from here: in another container, or another user's."""

    def __str__(self) -> str:
        return f"{self.name or 'a process'} (pid {self.pid})"


@dataclass(frozen=True)
class Reading:
    """The device at one moment. None: not known."""

    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors; of a CPU's cores."""
    memory_clock_mhz: float | None = None
    """Clock of the device's memory."""
    temperature_c: float | None = None
    """Of the chip, degrees Celsius."""
    power_w: float | None = None
    """Drawn by the whole board, watts, averaged by the driver over up to a second."""
    throttle: tuple[str, ...] = ()
    """What holds the clocks below their highest."""
    other_processes: tuple[Process, ...] = ()
    """Processes that compute on the device and are not ours."""
    utilisation: float | None = None
    """Share of the last second or so in which a kernel ran; for a CPU the load average over its cores."""
    memory_used_bytes: int | None = None
    """Of the device's memory, by everybody."""


class Source(Protocol):
    """Where readings come from. Neither method raises."""

    def quick(self) -> Reading:
        """Clocks and throttle reasons only: what may be asked for while something is timed."""

    def full(self) -> Reading:
        """Everything."""


class NoSource:
    """For devices that say nothing."""

    def quick(self) -> Reading:
        """Nothing."""
        return Reading()

    def full(self) -> Reading:
        """Nothing."""
        return Reading()


class CpuSource:
    """A CPU, as the operating system sees it."""

    def quick(self) -> Reading:
        """Nothing: asking for the cores' clocks takes milliseconds on large machines."""
        return Reading()

    def full(self) -> Reading:
        """Clock and load, where they can be had."""
        clock = load = None
        with contextlib.suppress(OSError, NotImplementedError, AttributeError):
            frequency = psutil.cpu_freq()
            clock = float(frequency.current) if frequency and frequency.current else None
        with contextlib.suppress(OSError):
            load = os.getloadavg()[0] / (os.cpu_count() or 1)
        return Reading(sm_clock_mhz=clock, utilisation=load)


class NvmlSource:
    """An NVIDIA GPU, found by UUID: NVML counts devices in an order of its own."""

    def __init__(
        self,
        uuid: str,
        nvml: Any,
        ours: Callable[[], Collection[int]],
        idle: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        """`nvml` is the module pynvml, initialised; `ours` and `idle` give processes that don't count as others: this
        grading's own, and those that are known to have nothing to do.
        """
        self._nvml = nvml
        self._ours = ours
        self._idle = idle
        self._told_apart: dict[int, bool] = {}
        """Processes seen on the device, and whether they are ours."""
        self._handle = self._ask(nvml.nvmlDeviceGetHandleByUUID, uuid)

    def quick(self) -> Reading:
        """Clocks and throttle reasons."""
        return Reading(**self._quick())

    def full(self) -> Reading:
        """Everything that NVML tells."""
        nvml = self._nvml
        quick = self._quick()
        power_mw = self._ask(nvml.nvmlDeviceGetPowerUsage, self._handle)
        busy = self._ask(nvml.nvmlDeviceGetUtilizationRates, self._handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, self._handle)
        return Reading(
            **quick,
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, self._handle, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if power_mw is None else power_mw / 1000,
            other_processes=tuple(self._others()),
            utilisation=None if busy is None else busy.gpu / 100,
            memory_used_bytes=None if memory is None else memory.used,
        )

    def _quick(self) -> dict[str, Any]:
        nvml = self._nvml
        # Renamed in driver 535; bindings of both ages are about.
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        bits = None if reasons is None else self._ask(reasons, self._handle)
        if bits is None:
            bits = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, self._handle)
        return {
            "sm_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, self._handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, self._handle, nvml.NVML_CLOCK_MEM),
            "throttle": throttle_names(bits or 0),
        }

    def _others(self) -> Iterator[Process]:
        running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, self._handle) or ()
        if any(found.pid not in self._told_apart for found in running):
            # Asked only for a process not seen before: all of /proc is read for it.
            ours = self._ours()
            self._told_apart |= {found.pid: found.pid in ours for found in running}
        others = [found.pid for found in running if not self._told_apart[found.pid]]
        idle = self._idle() if others else ()
        for pid in others:
            if pid not in idle:
                yield Process(pid, _name(pid))

    def _ask(self, question: Callable[..., Any], *args: Any) -> Any:
        try:
            return question(*args)
        except self._nvml.NVMLError:
            return None


def throttle_names(bits: int) -> tuple[str, ...]:
    """The names of the bits that are set; a bit without a name is called by its value."""
    return tuple(
        _THROTTLE.get(1 << place, f"bit_{1 << place:#x}") for place in range(bits.bit_length()) if bits >> place & 1
    )


@contextlib.contextmanager
def source_of(kind: str, uuid: str | None) -> Iterator[Source]:
    """Readings of the device that a grading runs on (`cuda` or `cpu`, and the UUID of a GPU)."""
    if kind == "cpu":
        yield CpuSource()
        return
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - ImportError, NVMLError, OSError: whatever it is, there are no readings
        yield NoSource()
        return
    try:
        yield NoSource() if uuid is None else NvmlSource(uuid, pynvml, family, lambda: idle(uuid))
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def family() -> set[int]:
    """This process and all that it started, as this process numbers them."""
    try:
        return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    except psutil.Error:
        return {os.getpid()}


def pids_are_the_machines() -> bool:
    """Whether processes have the numbers here that the driver gives: not so inside a container."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name()) if pids_are_the_machines() else ""
    except psutil.Error:
        return ""
