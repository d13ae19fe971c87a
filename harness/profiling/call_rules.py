"""Rules about a call as a whole: its traffic, its launches, what it waits for, how near the floor it is."""

from __future__ import annotations

from collections.abc import Iterator

from harness.audit.kernels import short
from harness.figures import amount, percent, times, us
from harness.profiling.bounds import idle_us
from harness.profiling.facts import Facts
from harness.profiling.result import Finding, HostCall

_EXCESS = 1.3
"""Times the needed bytes from which on traffic is worth a sentence."""
_DRAM_BOUND = 0.5
"""Share of the peak bandwidth from which on a call's time is taken to go with its bytes."""
_IDLE = 0.1
"""Share of the call."""
_TINY_US = 5.0
"""Kernels that take less than about what launching them does."""
_NEAR = 0.85
"""Share of the floor, or of the peak bandwidth, from which on little is left."""
A_CORE = 0.9
"""Less than this of a core means that the machine had other things to do, or that the call waits."""
_ONE_CORE = 1.3
"""Up to here one thread alone works: the process's other threads come to a part of a core as well."""
_IDLE_CORES = 0.4
"""Share of the cores from which on idle ones are worth a word."""
_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize")
_BLOCKING = ("cudaMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2")
_ALLOCATIONS = ("cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaHostAlloc", "cudaMallocHost")


def traffic(facts: Facts) -> Iterator[Finding]:
    """More bytes through device memory than the problem needs."""
    seen, device, peak = facts.profile.traffic, facts.profile.device, facts.peak_bytes_per_s
    if seen is None or device is None or not device.busy_us or seen.factor < _EXCESS:
        return
    share = 1.0 if not peak else min(1.0, seen.dram_bytes / device.busy_us * 1e6 / peak)
    gain = device.busy_us * (1 - 1 / seen.factor) * (1.0 if share >= _DRAM_BOUND else share)
    longest = facts.profile.kernels[0]
    if longest.launches > 1 and longest.share > 0.5:
        what = f": {short(longest.name)} passes over the data {longest.launches} times"
        advice = (
            "Do more in one pass: keep intermediate results in registers or shared memory, so that inputs are read "
            "once and outputs written once."
        )
    elif device.launches > 1:
        what = f", in {device.launches} kernels"
        advice = "Fuse kernels, so that what one of them writes and the next one reads never leaves the SMs."
    else:
        what = ""
        advice = (
            "Read each value once: tile through shared memory or registers what several threads use, and have blocks "
            "that share data run at the same time, so that L2 holds it."
        )
    yield Finding(
        code="memory.traffic",
        message=f"A call moves {amount(seen.dram_bytes)} through device memory, {times(seen.factor)} the "
        f"{amount(seen.needed_bytes)} that the problem needs{what}.",
        advice=advice,
        figures={
            "dram_bytes": seen.dram_bytes,
            "needed_bytes": seen.needed_bytes,
            "factor": seen.factor,
            "share_of_peak": share,
        },
        gain_us=gain,
    )


def launches(facts: Facts) -> Iterator[Finding]:
    """A device that has nothing to do between kernels, or before the next one is launched."""
    call, device = facts.profile.call, facts.profile.device
    if device is None or call.us <= 0:
        return
    idle = idle_us(call, device)
    waits = _of(facts, (*_WAITS, *_BLOCKING))
    if idle < _IDLE * call.us or (waits and device.launches < 10):
        return
    mean = device.busy_us / max(1, device.launches)
    tiny = f", which take {us(mean)} each on average" if mean < _TINY_US else ""
    where = "the host launching" if call.host_bound else "gaps between"
    yield Finding(
        code="launch.overhead",
        message=f"The device has nothing to do for {us(idle)} of a call ({percent(idle / call.us)}): {where} "
        f"{device.launches} kernel{'' if device.launches == 1 else 's'}{tiny}.",
        advice="Launch fewer kernels: fuse them, put a loop over steps inside one kernel, and let one launch handle "
        "all batches and channels.",
        figures={"idle_us": idle, "launches": device.launches, "mean_kernel_us": mean},
        gain_us=idle,
    )


def waits(facts: Facts) -> Iterator[Finding]:
    """A forward that waits for the device."""
    call, device = facts.profile.call, facts.profile.device
    found = _of(facts, (*_WAITS, *_BLOCKING))
    if device is None or not found:
        return
    count = sum(each.count for each in found)
    names = ", ".join(each.name for each in found)
    yield Finding(
        code="host.synchronisation",
        message=f"forward waits for the device {count} time{'' if count == 1 else 's'} ({names}), and the device has "
        f"nothing to do until the host goes on: {us(idle_us(call, device))} of a call.",
        advice="Leave out synchronisations, and what needs a value on the host: .item(), .cpu(), a Python if or a size "
        "that depends on a tensor.",
        figures={"waits": count, "idle_us": idle_us(call, device)},
        gain_us=idle_us(call, device),
    )


def allocations(facts: Facts) -> Iterator[Finding]:
    """Memory from the driver in every call."""
    found = _of(facts, _ALLOCATIONS)
    if not found:
        return
    count, took = sum(each.count for each in found), sum(each.us for each in found)
    yield Finding(
        code="host.allocation",
        message=f"A call asks the driver for memory {count} time{'' if count == 1 else 's'}, {us(took)} on the host, "
        "also when it has been called before.",
        advice="Allocate with torch.empty, whose memory is kept for the next call, or once in the constructor.",
        figures={"calls": count, "host_us": took},
        gain_us=took if facts.profile.call.host_bound else None,
    )


def copies(facts: Facts) -> Iterator[Finding]:
    """Copies and fills that take a part of the call."""
    call = facts.profile.call
    for copy in facts.profile.copies:
        if copy.us < _IDLE * call.us:
            continue
        inside = "DtoD" in copy.name or copy.name.startswith("Memset")
        yield Finding(
            code="memory.copies",
            message=f"{copy.name} takes {us(copy.us)} of a call ({percent(copy.us / call.us)}) for "
            f"{amount(copy.bytes)}.",
            advice="Let the kernel that needs the data read it where it lies, and write every element of an output "
            "that is not filled first."
            if inside
            else "Keep everything on the device: build constants there once, in the constructor.",
            figures={"us": copy.us, "bytes": copy.bytes, "count": copy.count},
            gain_us=copy.us,
        )


def near_the_floor(facts: Facts) -> Iterator[Finding]:
    """Little is left."""
    call, seen, peak = facts.profile.call, facts.profile.traffic, facts.peak_bytes_per_s
    if call.floor_us is not None and call.floor_us >= _NEAR * call.us > 0:
        yield Finding(
            code="roofline.near",
            message=f"The call takes {call.us / call.floor_us:.2f} times the least time that its work can take on this "
            f"device ({us(call.floor_us)}).",
            advice="Little is left to gain with this amount of work; look for work that need not be done.",
            figures={"floor_us": call.floor_us, "us": call.us},
            gain_us=max(0.0, call.us - call.floor_us),
        )
    elif seen is not None and peak and seen.factor < _EXCESS:
        rate = seen.dram_bytes / call.us * 1e6
        if rate >= _NEAR * peak:
            yield Finding(
                code="roofline.near",
                message=f"The call moves {amount(rate, 'B/s')}, {percent(rate / peak)} of what this device's memory "
                "reaches, and hardly more bytes than it must.",
                advice="Only fewer bytes would make it faster.",
                figures={"bytes_per_s": rate, "share_of_peak": rate / peak},
                gain_us=max(0.0, call.us * (1 - rate / peak)),
            )


def cores(facts: Facts) -> Iterator[Finding]:
    """On a CPU: cores that do nothing."""
    used, there = facts.profile.cores_used, facts.device.cores
    if used is None or not there or there < 2 or not A_CORE <= used <= max(_ONE_CORE, (1 - _IDLE_CORES) * there):
        return
    yield Finding(
        code="cpu.idle_cores",
        message=f"A call keeps {used:.1f} of {there} cores busy.",
        advice="Spread the work over the cores: at::parallel_for over batches or channels, each part some ten "
        "thousand operations or more.",
        figures={"cores_used": used, "cores": there},
        gain_us=facts.profile.call.us * (1 - used / there),
    )


def operators(facts: Facts) -> Iterator[Finding]:
    """On a CPU: where most of the time goes."""
    if not facts.profile.operators or facts.profile.operators[0].share < 0.3:
        return
    longest = facts.profile.operators[0]
    yield Finding(
        code="cpu.operator",
        message=f"{longest.name} takes {percent(longest.share)} of the time, {longest.count} "
        f"time{'' if longest.count == 1 else 's'} a call.",
        advice="Begin there: innermost loops over neighbouring addresses, without branches, so that the compiler "
        "vectorises them."
        if longest.name.startswith("extension")
        else "Begin there: compute it in an extension together with what comes before and after it.",
        figures={"self_us": longest.self_us, "share": longest.share},
    )


def _of(facts: Facts, names: tuple[str, ...]) -> list[HostCall]:
    return [call for call in facts.profile.host if call.name in names]
