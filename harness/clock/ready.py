"""A device made ready for a grading, with its lock held, and what is to be said about it.

clocks left locked by a killed grading are freed -> health -> clocks locked, if asked -> the grading -> unlocked
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.clock.clock_lock import free_left_behind, locked_clocks
from harness.clock.health import DeviceProbe, UsualTimes, findings_after, findings_before
from harness.clock.readings import Source, source_of
from harness.device import Device
from harness.report import Warning_

if TYPE_CHECKING:
    import torch


class Ready:
    """A device that a grading may use."""

    def __init__(self, source: Source, probe: DeviceProbe | None) -> None:
        self.source = source
        """For the readings while it is timed."""
        self._probe = probe
        self._memory_before = None if probe is None else probe.reading().memory_used_bytes

    def left_behind(self) -> list[Warning_]:
        """What the grading left on the device, to be asked when its workers have ended."""
        return [] if self._probe is None else findings_after(self._probe, self._memory_before)


@contextlib.contextmanager
def ready(
    device: Device, place: torch.device, warnings: list[Warning_], *, lock_clocks: bool = False
) -> Iterator[Ready]:
    """Make `device`, which torch knows as `place`, ready; what there is to say is added to `warnings`.

    To be called before anything of the grading runs on the device. A CPU needs nothing of the kind.
    """
    with source_of(device.kind, device.uuid) as source:
        if device.kind == "cpu":
            if lock_clocks:
                warnings.append(_not_locked("The clocks can't be locked: only a GPU's can."))
            yield Ready(source, None)
            return
        if (freed := free_left_behind(device.uuid)) is not None:
            warnings.append(Warning_(code="device.clocks_left_locked", message=freed))
        probe = DeviceProbe(place, source)
        # A locked clock would make the known kernel slower than it usually is.
        warnings += findings_before(probe, UsualTimes(), _key(device))
        usable = Ready(source, probe)
        if not lock_clocks:
            yield usable
            return
        with locked_clocks(device.uuid) as lock:
            if not lock.locked:
                warnings.append(_not_locked(lock.message))
            yield usable


def _not_locked(message: str) -> Warning_:
    return Warning_(code="device.clocks_not_locked", message=message)


def _key(device: Device) -> str:
    return f"{device.uuid or device.torch_name} driver {device.info.driver} torch {device.info.torch}"
