"""A device made ready for a grading, with its lock held, and what is to be said about it.

    clocks left locked by a killed grading are freed -> health -> check -> clocks locked, if asked -> time -> unlocked

Clocks are locked for the timing alone: the device is lent to others while something compiles, which is before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.clock.clock_lock import free_left_behind, locked_clocks
from harness.clock.health import DeviceProbe, UsualTimes, findings_after, findings_before
from harness.clock.readings import Source, source_of
from harness.machine.device import Device
from harness.report import Warning_

if TYPE_CHECKING:
    import torch


class Ready:
    """A device that a grading may use; `warnings` grows with what there is to say."""

    def __init__(
        self,
        device: Device,
        source: Source,
        probe: DeviceProbe | None,
        warnings: list[Warning_],
        held_bytes: int = 0,
    ) -> None:
        self.source = source
        """For the readings while it is timed."""
        self._device = device
        self._probe = probe
        self._warnings = warnings
        self._memory_before = None if probe is None else probe.reading().memory_used_bytes
        self.hold(held_bytes)

    def hold(self, held_bytes: int) -> None:
        """So much of the memory in use is held by a worker of this grading, and is given back with it."""
        if self._memory_before is not None:
            self._memory_before = max(0, self._memory_before - held_bytes)

    @contextlib.contextmanager
    def clocks_locked(self, wanted: bool) -> Iterator[None]:
        """Hold the clocks inside, if that is wanted and possible."""
        if not wanted:
            yield
            return
        with locked_clocks(self._device.uuid) as lock:
            if not lock.locked:
                self._warnings.append(Warning_(code="device.clocks_not_locked", message=lock.message))
            yield

    def look_after(self) -> None:
        """See what the grading left on the device: when its workers have ended, and before `ready` is left."""
        if self._probe is not None:
            self._warnings += findings_after(self._probe, self._memory_before)


@contextlib.contextmanager
def ready(device: Device, place: torch.device, warnings: list[Warning_], *, held_bytes: int = 0) -> Iterator[Ready]:
    """Make `device`, which torch knows as `place`, ready.

    `held_bytes` of its memory are held by workers that were made ready before, and are given back with them. To be
    called before anything of the grading runs on the device. A CPU needs nothing of the kind.
    """
    with source_of(device.kind, device.uuid) as source:
        if device.kind == "cpu":
            yield Ready(device, source, None, warnings)
            return
        if (freed := free_left_behind(device.uuid)) is not None:
            warnings.append(Warning_(code="device.clocks_left_locked", message=freed))
        probe = DeviceProbe(place, source)
        warnings += findings_before(probe, UsualTimes(), _key(device))
        yield Ready(device, source, probe, warnings, held_bytes)


def _key(device: Device) -> str:
    return f"{device.uuid or device.torch_name} driver {device.info.driver} torch {device.info.torch}"
