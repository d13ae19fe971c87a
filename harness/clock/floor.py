"""The least time that a workload's work can take on a device; nothing here measures anything.

    ways (amounts by resource) x Peaks --> Floor --> Timing with its floor

A way takes the longest of amount over peak, because the resources of a device work side by side; the floor is the
shortest of the legal ways. (The roofline of Williams, Waterman and Patterson, CACM 52(4), 2009, with a roof for each
kind of operation.)

Two figures come out. `us` is what a person compares with: all bytes cross the memory, special functions run on their
own units. `limit_us` is what a verdict hangs on, 0.9 of the same with everything granted that hardware might grant:

- Inputs are cold, but outputs may stay in L2 when the call ends: of them, up to L2's size never crosses the memory.
  (A flush that leaves L2 full of dirty lines makes the call write those back instead, so the bytes usually do cross.
  Nothing that NVIDIA documents promises it.)
- exp and its kin may be computed by polynomials on the fp32 pipe beside the special-function units, as
  FlashAttention-4 does (2025): two additions that reduce the range and three multiply-adds, so five slots of the pipe
  or ten operations each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.clock.peaks import Peaks
from harness.load.problem import FloorWay, Problem, Workload
from harness.report import FloorReport, Timing

BELOW = 0.9
"""A time below this share of the floor is not believed."""
_POLYNOMIAL_FLOPS = 10.0


@dataclass(frozen=True)
class Floor:
    """The least time of one call, microseconds."""

    us: float
    way: str
    """The legal way that is fastest on the device."""
    bound_by: str
    """The resource that takes longest in that way, named as in problem.toml."""
    per_resource_us: Mapping[str, float]
    """What each resource of that way takes."""
    limit_us: float | None
    """A time below this can't be; None where the peaks are no bounds (a CPU's)."""


def floor_us(ways: Sequence[FloorWay], peaks: Peaks, *, output_bytes: float | None = None) -> Floor | None:
    """The floor of a workload; None where the problem states none, or nothing whose peak is known.

    `output_bytes`: bytes of one call's outputs; None: all of the workload's bytes might be.
    """
    rates = _rates(peaks)
    if not ways:
        return None
    way, each = min(((way, _times(way.work, rates)) for way in ways), key=lambda pair: _longest(pair[1]))
    us = _longest(each)
    if us <= 0:
        return None
    return Floor(
        us=us,
        way=way.name,
        bound_by=max(each, key=each.__getitem__),
        per_resource_us=each,
        limit_us=_limit_us(ways, peaks, output_bytes) if peaks.kind == "cuda" else None,
    )


def with_floor(
    timing: Timing, problem: Problem, workload: Workload, peaks: Peaks, *, output_bytes: float | None = None
) -> Timing:
    """The timing with its floor and the fraction of it that was reached; as it was where the problem states none."""
    ways = problem.floor_ways(workload)
    floor = floor_us(ways, peaks, output_bytes=output_bytes)
    if floor is None:
        return timing
    used = {resource for way in ways for resource in way.work}
    median_us = timing.candidate.median_us
    report = FloorReport(
        us=floor.us,
        bound_by=floor.bound_by,
        way=floor.way,
        per_resource_us=dict(floor.per_resource_us),
        peaks={resource: rate for resource, rate in _rates(peaks).items() if resource in used},
        limit_us=floor.limit_us,
    )
    return timing.model_copy(
        update={
            "floor": report,
            "floor_us": floor.us,
            "fraction_of_floor": floor.us / median_us if median_us > 0 else None,
        }
    )


def _limit_us(ways: Sequence[FloorWay], peaks: Peaks, output_bytes: float | None) -> float:
    rates = _rates(peaks)
    if peaks.special_ops is not None:
        rates["special_ops"] = peaks.special_ops + (peaks.fp32_flops or 0.0) / _POLYNOMIAL_FLOPS
    return BELOW * min(_longest(_times(_without_resident(way.work, peaks, output_bytes), rates)) for way in ways)


def _without_resident(work: Mapping[str, float], peaks: Peaks, output_bytes: float | None) -> dict[str, float]:
    """The work less the output that may still be in L2 when the call ends."""
    total = work.get("bytes", 0.0)
    outputs = total if output_bytes is None else min(total, output_bytes)
    resident = outputs if peaks.l2_bytes is None else min(outputs, peaks.l2_bytes)
    return {**work, "bytes": total - resident}


def _times(work: Mapping[str, float], rates: Mapping[str, float]) -> dict[str, float]:
    """Microseconds by resource; a resource whose peak is not known is left out, which makes the floor lower."""
    return {resource: amount / rates[resource] * 1e6 for resource, amount in work.items() if resource in rates}


def _longest(times: Mapping[str, float]) -> float:
    return max(times.values(), default=0.0)


def _rates(peaks: Peaks) -> dict[str, float]:
    """Peaks per second, under the names that a problem's floor uses."""
    rates = {
        "bytes": peaks.bytes_per_s,
        "fp64_flops": peaks.fp64_flops,
        "fp32_flops": peaks.fp32_flops,
        "tf32_flops": peaks.tf32_flops,
        "fp16_flops": peaks.fp16_flops,
        "special_ops": peaks.special_ops,
    }
    return {resource: rate for resource, rate in rates.items() if rate is not None}
