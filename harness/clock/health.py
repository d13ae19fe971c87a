"""Whether a device is fit to be graded on: looked at between gradings, with the device's lock held.

    before a grading   nothing else runs on it, and a kernel with a known answer gives it in its usual time
    after a grading    its memory is as free as before

Each finding is a warning of the report: a device that is not fit makes figures doubtful, and whoever reads them should
know. What a kernel usually takes is remembered for each device; how far off is too far comes from how much it moved.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.caches import cache_folder
from harness.clock.readings import Reading, Source, pids_are_the_machines
from harness.report import Warning_

if TYPE_CHECKING:
    import torch

_IDLE_BELOW = 0.05
"""Utilisation of a device on which nothing runs: NVML counts whole percents over up to a second."""
_SETTLE_S = (0.0, 0.2, 0.4, 0.8)
"""Waits between looks at it: the second after a grading still counts that grading's work."""
_MEMORY_SLACK = 256 << 20
"""Bytes that may stay: the driver's, and kernels that this process loaded meanwhile. A context takes twice as much."""
_KEPT_TIMES = 30
_ENOUGH_TIMES = 5
"""Times that make something usual."""
_SPREADS = 6.0
"""Standard deviations above the usual that are too slow."""
_LEAST_SHARE = 0.05
"""Of the usual time, that is never too slow: a handful of equal times has no spread."""
_MAD_TO_SIGMA = 1.4826
_PASSES = 16
"""An even number: each second pass undoes the one before it."""
_MASK = 0x5A5A5A


@dataclass(frozen=True)
class KernelRun:
    """What came of the known kernel."""

    right: bool
    us: float
    """Of one run, microseconds."""


class Probe(Protocol):
    """What is asked of a device."""

    def reading(self) -> Reading:
        """What it says of itself."""

    def kernel(self) -> KernelRun:
        """Run the known kernel."""


class DeviceProbe:
    """A real device, through torch."""

    def __init__(self, device: torch.device, source: Source) -> None:
        self._device = device
        self._source = source

    def reading(self) -> Reading:
        """From the driver. In a container its process numbers mean nothing here, and are left out.

        A CPU's load average is no such thing: it counts the minute before, and ourselves.
        """
        if self._device.type != "cuda":
            return Reading()
        import torch

        found = self._source.full()
        # What this process keeps for tensors to come is not in use by anybody.
        used = found.memory_used_bytes
        return replace(
            found,
            other_processes=found.other_processes if pids_are_the_machines() else (),
            memory_used_bytes=None if used is None else max(0, used - torch.cuda.memory_reserved(self._device)),
        )

    def kernel(self) -> KernelRun:
        """Whole numbers from 0 on, their bits turned around an even number of times: sums that are known exactly."""
        import torch

        # Events belong to the device that is current when they are made: it has to be this one.
        with torch.cuda.device(self._device) if self._device.type == "cuda" else contextlib.nullcontext():
            return self._run()

    def _run(self) -> KernelRun:
        import torch

        count = 1 << (24 if self._device.type == "cuda" else 20)
        values = torch.arange(count, dtype=torch.int32, device=self._device)
        times = [self._timed(values) for _ in range(5)]
        total = int(values.sum(dtype=torch.int64))
        squares = int((values.to(torch.int64) ** 2).sum())
        # Sums of 64 bits wrap around; so does what they are held against.
        known_squares = (count - 1) * count * (2 * count - 1) // 6
        right = total == count * (count - 1) // 2 and (squares - known_squares) % 2**64 == 0
        return KernelRun(right, statistics.median(times))

    def _timed(self, values: torch.Tensor) -> float:
        import torch

        if self._device.type != "cuda":
            began = time.perf_counter()
            for _ in range(_PASSES):
                values.bitwise_xor_(_MASK)
            return (time.perf_counter() - began) / _PASSES * 1e6
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(_PASSES):
            values.bitwise_xor_(_MASK)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / _PASSES * 1e3


class UsualTimes:
    """What the known kernel took before, for each device: a JSON file that may be lost or removed at any time."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "health.json"

    def of(self, key: str) -> list[float]:
        """The latest times of a device, microseconds."""
        found = self._all().get(key, [])
        return [float(each) for each in found if isinstance(each, int | float)] if isinstance(found, list) else []

    def add(self, key: str, us: float) -> None:
        """Remember one more; the oldest are forgotten."""
        everything = self._all() | {key: [*self.of(key), us][-_KEPT_TIMES:]}
        # A cache that can't be written costs a warning some day, not a grading now.
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
            with os.fdopen(fd, "w") as file:
                json.dump(everything, file)
            os.replace(temporary, self.path)

    def _all(self) -> dict[str, object]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def findings_before(
    probe: Probe, usual: UsualTimes, key: str, *, sleep: Callable[[float], None] = time.sleep
) -> list[Warning_]:
    """What is wrong with a device that a grading is about to use; empty when nothing is.

    `key` stands for the device with all that makes times comparable: its UUID and the versions of driver and torch.
    """
    found = [*_busy(probe, sleep), *_shared(probe.reading())]
    run = probe.kernel()
    if not run.right:
        message = "A kernel with a known answer gave another one on this device: its results can't be trusted."
        return [*found, Warning_(code="device.wrong_answer", message=message)]
    limit = _limit(before := usual.of(key))
    if limit is not None and run.us > limit:
        middle = statistics.median(before)
        found.append(
            Warning_(
                code="device.slow",
                message=f"A known kernel took {run.us:.4g} us on this device, where it usually takes {middle:.4g}: "
                f"something slows the device down. If it is to stay so, remove {usual.path}.",
                evidence={"us": run.us, "usual_us": middle, "limit_us": limit, "times": len(before)},
            )
        )
    elif not found:
        # What was measured on a device in use, or was too slow, is not what is usual.
        usual.add(key, run.us)
    return found


def findings_after(probe: Probe, memory_before: int | None) -> list[Warning_]:
    """What a grading left behind, given the bytes that were in use on the device before it."""
    now = probe.reading().memory_used_bytes
    if memory_before is None or now is None or now - memory_before <= _MEMORY_SLACK:
        return []
    kept = now - memory_before
    return [
        Warning_(
            code="device.memory_kept",
            message=f"{kept >> 20} MiB more of the device's memory are in use than before the grading: a process of it "
            "is still there, or somebody else came.",
            evidence={"before_bytes": memory_before, "after_bytes": now},
        )
    ]


def _busy(probe: Probe, sleep: Callable[[float], None]) -> list[Warning_]:
    least = 1.0
    for pause in _SETTLE_S:
        sleep(pause)
        load = probe.reading().utilisation
        if load is None or load <= _IDLE_BELOW:
            return []
        least = min(least, load)
    return [
        Warning_(
            code="device.busy",
            message=f"Something else keeps the device busy ({100 * least:.0f} % of the time): times are longer for it, "
            "and move with it.",
            evidence={"utilisation": least},
        )
    ]


def _shared(reading: Reading) -> list[Warning_]:
    others = [str(process) for process in reading.other_processes]
    if not others:
        return []
    names = ", ".join([*others[:5], "..."] if len(others) > 5 else others)
    return [
        Warning_(
            code="device.shared",
            message=f"Others have the device open as well: {names}; what they do there while a submission is "
            "timed makes its times longer.",
            evidence={"processes": others},
        )
    ]


def _limit(times: Sequence[float]) -> float | None:
    """The longest time that is still usual; None where too little is known."""
    if len(times) < _ENOUGH_TIMES:
        return None
    middle = statistics.median(times)
    deviation = statistics.median(abs(each - middle) for each in times)
    return middle + max(_SPREADS * _MAD_TO_SIGMA * deviation, _LEAST_SHARE * middle)
