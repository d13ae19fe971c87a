"""What bounds a kernel, and a call; pure, and with the thresholds of Nsight Compute's own summary.

A kernel is latency bound where neither memory nor SMs are used to 60 % of their peak: then something is waited for, and
neither is short. Otherwise the more used of the two bounds it. Memory counts by Nsight Compute's figure, which is a
share of what its units and pins could do; of that a copy reaches some nine tenths.

A call is launch bound where for more than half of it the device has nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.audit.kernels import short
from harness.figures import percent, us
from harness.profiling.result import Bound, CallTime, Counters, DeviceTime, KernelProfile

LOW = 0.6
"""Use of neither memory nor SMs reaches this share of their peak: latency."""
_IDLE = 0.5
"""Share of a call in which the device has nothing to do."""


def used(counters: Counters) -> tuple[float, float] | None:
    """How much memory and SMs are used, as shares of their peaks; None where that was not read."""
    if counters.memory_throughput is None or counters.compute_throughput is None:
        return None
    return counters.memory_throughput, counters.compute_throughput


def kernel_bound(counters: Counters | None) -> Bound | None:
    """None where the counters were not read."""
    both = None if counters is None else used(counters)
    if both is None:
        return None
    memory, compute = both
    if max(both) < LOW:
        return "latency"
    return "memory" if memory >= compute else "compute"


def idle_us(call: CallTime, device: DeviceTime | None) -> float:
    """What a call takes while its device has nothing to do: gaps, and where the host is waited for all that is left.

    Tracing holds the host up, so that the trace may have gaps that the call has not: no more of them than a timed call
    has room for.
    """
    if device is None:
        return 0.0
    left = max(0.0, call.us - device.busy_us)
    return left if call.host_bound else min(left, device.gap_us)


def call_bound(call: CallTime, device: DeviceTime | None, kernels: Sequence[KernelProfile]) -> tuple[Bound | None, str]:
    """What bounds the call, and how that is known."""
    if device is None:
        return None, ""
    idle = idle_us(call, device)
    if call.us > 0 and idle > _IDLE * call.us:
        return "launch", f"for {us(idle)} of {us(call.us)} the device has nothing to do"
    if not kernels:
        return None, ""
    longest = kernels[0]
    if longest.counters is None or longest.bound is None:
        return None, "memory, compute and latency are told apart by counters, which were not read"
    memory, compute = used(longest.counters) or (0.0, 0.0)
    return longest.bound, (
        f"{short(longest.name)}, {percent(longest.share)} of the time, uses memory to {percent(memory)} and the SMs to "
        f"{percent(compute)} of their peaks"
    )
