"""What the rules look at, and the form of a rule.

Facts --rule--> Findings         each rule is a pure function; rules.py has the table of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.clock.peaks import Peaks
from harness.load.problem import FloorWay
from harness.profiling.bounds import used
from harness.profiling.result import Finding, KernelProfile, Profile
from harness.report import DeviceInfo

_LEAST_SHARE = 0.05
"""Of a call, for a kernel to be looked at."""


@dataclass(frozen=True)
class Facts:
    """A profile without its findings, and what it is held against."""

    profile: Profile
    device: DeviceInfo
    peaks: Peaks | None = None
    """None where they are not known."""
    ways: tuple[FloorWay, ...] = ()
    """The legal ways of doing the work, as the problem states them."""

    @property
    def kernels(self) -> list[KernelProfile]:
        """Those that are worth a look."""
        return [kernel for kernel in self.profile.kernels if kernel.share >= _LEAST_SHARE]

    @property
    def peak_bytes_per_s(self) -> float | None:
        """The device's peak bandwidth."""
        return None if self.peaks is None else self.peaks.bytes_per_s


Rule = Callable[[Facts], Iterator[Finding]]


def slack(kernel: KernelProfile) -> float | None:
    """The share of the peaks of memory and SMs that a kernel leaves unused; None where that is not known."""
    both = None if kernel.counters is None else used(kernel.counters)
    return None if both is None else max(0.0, 1.0 - max(both))
