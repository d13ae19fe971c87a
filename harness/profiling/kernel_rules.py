"""Rules about one kernel: its accesses, its warps, its pipes. Each gain is of that kernel's time, and an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.audit.kernels import short
from harness.figures import amount, percent, times, us
from harness.profiling.bounds import LOW
from harness.profiling.facts import Facts, slack
from harness.profiling.result import Counters, Finding, KernelProfile, Limiter

_SECTOR_FACTOR = 1.5
_CONFLICTS = 0.2
_LOCAL = 0.05
_OCCUPANCY = 0.5
_FILLED = 0.25
"""Share of the device's threads below which a launch is small."""
_SLOW_ISSUE = 0.4
_LANES = 24.0
_TAIL = 0.2
_FMA_BUSY = 0.5
_SPLIT = 3
"""Products in tf32 or fp16 that together keep fp32's accuracy."""
_MORE_BLOCKS: dict[Limiter, str] = {
    "registers": "Use fewer registers: smaller tiles a thread, less unrolling, or __launch_bounds__(threads, blocks).",
    "shared memory": "Use less shared memory a block: smaller tiles, fewer stages, values kept in registers.",
    "threads": "Choose a block size that divides the threads of an SM, such as 128 or 256.",
    "blocks": "Use larger blocks: an SM holds only so many, however small they are.",
}
_STALLS = {
    "long_scoreboard": (
        "global or local memory",
        "Have more loads in flight: load the next tile before the current one is used, several values a thread, "
        "16 bytes each.",
    ),
    "short_scoreboard": (
        "shared memory, shuffles or special functions",
        "Use fewer of them: keep values in registers, exchange several at once, and interleave independent work.",
    ),
    "barrier": (
        "other warps at __syncthreads",
        "Use fewer or smaller barriers: shuffles within a warp, smaller blocks, or work that is balanced between "
        "warps.",
    ),
    "lg_throttle": ("the queue of loads and stores", "Use fewer and wider ones: float4 instead of four floats."),
    "mio_throttle": ("the queue of shared memory", "Use fewer and wider accesses of shared memory, or shuffles."),
    "math_pipe_throttle": ("a pipe that is busy", "Spread the arithmetic over other pipes, or do less of it."),
    "wait": ("the instruction before", "Give each thread several independent chains of arithmetic."),
    "no_instruction": ("instructions to be fetched", "Unroll less: the code does not fit into its cache."),
    "membar": ("a memory fence", "Use fewer or narrower fences."),
    "tex_throttle": ("the queue of texture loads", "Use plain loads."),
    "drain": ("stores to be finished at the end", "Spread stores over the kernel."),
    "branch_resolving": ("branches", "Use fewer branches in the inner loop."),
    "sleeping": ("itself, asleep", "Wait less."),
}


def uncoalesced(facts: Facts) -> Iterator[Finding]:
    """Sectors of which only a part is used."""
    for kernel, counters in _counted(facts):
        factor = counters.sector_factor
        if factor is None or factor < _SECTOR_FACTOR:
            continue
        # With all of each sector used, the sectors' part shrinks by the factor; what SMs and device memory do stays.
        left = max(1 / factor, counters.compute_throughput or 0.0, counters.dram_throughput or 0.0)
        # Where the memory system is hardly used, its sectors are not what is waited for.
        part = min(1.0, (counters.memory_throughput or 0.0) / LOW)
        per_request = counters.sectors_per_request
        requests = "" if per_request is None else f", {per_request:.3g} sectors in an access of a warp"
        yield Finding(
            code="memory.uncoalesced",
            message=f"{short(kernel.name)} asks for {times(factor)} the sectors that its data fill: of each 32 bytes "
            f"it uses {32 / factor:.2g}{requests}.",
            advice="Let neighbouring threads access neighbouring addresses: threadIdx.x along the dimension that is "
            "contiguous in memory, or tiles that are loaded that way and turned around in shared memory.",
            kernel=kernel.name,
            figures={
                "sector_factor": factor,
                "sectors": counters.sectors or 0.0,
                "needed_sectors": counters.needed_sectors or 0.0,
                "sectors_per_request": per_request or 0.0,
            },
            gain_us=kernel.us * part * max(0.0, 1 - left),
        )


def bandwidth(facts: Facts) -> Iterator[Finding]:
    """Bound by device memory, and not at what it can do."""
    for kernel, counters in _counted(facts):
        share, rate = counters.share_of_peak, counters.dram_bytes_per_s
        if kernel.bound != "memory" or share is None or rate is None or not 0.5 <= share < 0.85:
            continue
        yield Finding(
            code="memory.bandwidth",
            message=f"{short(kernel.name)} moves {amount(rate, 'B/s')}, {percent(share)} of what this device's memory "
            "reaches.",
            advice="Have more bytes in flight: 16 bytes a load (float4), several independent loads a thread before the "
            "first is used, and enough resident warps.",
            kernel=kernel.name,
            figures={"bytes_per_s": rate, "share_of_peak": share},
            gain_us=kernel.us * (1 - share),
        )


def bank_conflicts(facts: Facts) -> Iterator[Finding]:
    """Passes over shared memory that only conflicts made necessary."""
    for kernel, counters in _counted(facts):
        passes, conflicts = counters.shared_wavefronts, counters.bank_conflicts
        if not passes or conflicts is None or conflicts < _CONFLICTS * passes:
            continue
        share = min(1.0, conflicts / passes)
        ways = 1 / max(1e-3, 1 - share)
        yield Finding(
            code="shared.bank_conflicts",
            message=f"{percent(share)} of {short(kernel.name)}'s passes over shared memory are bank conflicts: an "
            f"access takes {ways:.2g} passes on average where one would do.",
            advice="Pad rows of a tile by one element (float tile[32][33]), or swizzle the index, so that a warp's "
            "addresses fall into different banks.",
            kernel=kernel.name,
            figures={"conflicts": conflicts, "wavefronts": passes, "share": share},
            gain_us=kernel.us * share * min(1.0, counters.l1_throughput or 0.0),
        )


def spills(facts: Facts) -> Iterator[Finding]:
    """Registers, or arrays, in local memory."""
    for kernel in facts.kernels:
        counters = kernel.counters
        local = None if counters is None else counters.local_sectors
        figures: dict[str, float | str] = {"spilled_bytes": kernel.spilled_bytes}
        gain = None
        if counters is not None and local is not None:
            whole = local + (counters.sectors or 0.0)
            if not whole or local < _LOCAL * whole:
                continue
            figures |= {"local_sectors": local, "share": local / whole}
            gain = kernel.us * local / whole * (counters.memory_throughput or 0.0)
            message = f"{percent(local / whole)} of the sectors that {short(kernel.name)} asks for are local memory"
        elif kernel.spilled_bytes:
            message = f"{short(kernel.name)} has local memory"
        else:
            continue
        spilled = f", {kernel.spilled_bytes} bytes a thread spilled from registers" if kernel.spilled_bytes else ""
        yield Finding(
            code="registers.spills",
            message=f"{message}{spilled}.",
            advice="Keep fewer values alive at once, raise the limit of registers (__launch_bounds__), and index "
            "arrays only by constants, in loops that are unrolled whole.",
            kernel=kernel.name,
            figures=figures,
            gain_us=gain,
        )


def few_threads(facts: Facts) -> Iterator[Finding]:
    """A launch that leaves most of the device empty."""
    room = (facts.device.sms or 0) * (facts.device.max_threads_per_sm or 0)
    for kernel in facts.kernels:
        threads = math.prod(kernel.grid) * math.prod(kernel.block)
        if kernel.bound not in (None, "latency") or not room or threads >= _FILLED * room:
            continue
        free = slack(kernel)
        yield Finding(
            code="latency.few_threads",
            message=f"{short(kernel.name)} runs {threads:,} threads, {percent(threads / room)} of the {room:,} that "
            "the device holds at once: each waits for memory, and nobody else has work meanwhile.",
            advice="Cut the work into more independent parts: a recurrence or scan into chunks along the sequence "
            "whose ends are combined, a sum into partial sums, a reduction over several threads.",
            kernel=kernel.name,
            figures={"threads": threads, "room": room, "share": threads / room},
            gain_us=None if free is None else kernel.us * free,
        )


def low_occupancy(facts: Facts) -> Iterator[Finding]:
    """A kernel that keeps most of each SM empty although there are blocks enough."""
    for kernel in facts.kernels:
        fits = kernel.occupancy
        if fits is None or fits.share >= _OCCUPANCY or fits.waves < 1 or kernel.bound not in (None, "latency"):
            continue
        free = slack(kernel)
        limiter = fits.limited_by[0]
        yield Finding(
            code="occupancy.limited",
            message=f"{short(kernel.name)} fills an SM to {percent(fits.share)} ({fits.warps_per_sm} warps), limited "
            f"by {' and '.join(fits.limited_by)}: {kernel.registers} registers a thread, {kernel.shared_bytes:,} bytes "
            f"of shared memory and {math.prod(kernel.block)} threads a block.",
            advice=_MORE_BLOCKS[limiter],
            kernel=kernel.name,
            figures={"occupancy": fits.share, "warps_per_sm": fits.warps_per_sm, "limited_by": limiter},
            gain_us=None if free is None else kernel.us * min(free, 1 - fits.share),
        )


def stalls(facts: Facts) -> Iterator[Finding]:
    """Warps that wait, in a kernel that uses neither memory nor SMs much."""
    for kernel, counters in _counted(facts):
        known = {name: cycles for name, cycles in counters.stalls.items() if name in _STALLS}
        whole, free = sum(known.values()), slack(kernel)
        if kernel.bound != "latency" or not whole or free is None or (counters.issue_rate or 0.0) > _SLOW_ISSUE:
            continue
        name = max(known, key=known.__getitem__)
        what, advice = _STALLS[name]
        issue = "" if counters.issue_rate is None else f", and a scheduler issues in {percent(counters.issue_rate)}"
        yield Finding(
            code="latency.stalls",
            message=f"For each instruction of {short(kernel.name)} a warp waits {known[name]:.3g} cycles for {what} "
            f"({percent(known[name] / whole)} of all waiting){issue}{' of its cycles' if issue else ''}.",
            advice=advice,
            kernel=kernel.name,
            figures={"stall": name, "cycles": known[name], "share": known[name] / whole},
            gain_us=kernel.us * free * known[name] / whole,
        )


def idle_tensor_cores(facts: Facts) -> Iterator[Finding]:
    """Multiply-adds in fp32 where the problem allows split products in the tensor cores."""
    peaks = facts.peaks
    split = any("tf32_flops" in way.work or "fp16_flops" in way.work for way in facts.ways)
    if peaks is None or not peaks.fp32_flops or not peaks.tf32_flops or not split:
        return
    for kernel, counters in _counted(facts):
        if kernel.bound != "compute" or (counters.fma_use or 0.0) < _FMA_BUSY or (counters.tensor_use or 0.0) > 0.01:
            continue
        faster = peaks.tf32_flops / (_SPLIT * peaks.fp32_flops)
        yield Finding(
            code="compute.tensor_cores_idle",
            message=f"{short(kernel.name)} keeps the fp32 multiply-adds busy to {percent(counters.fma_use or 0.0)} and "
            "uses no tensor core, which the problem allows with fp32's accuracy.",
            advice=f"Split each factor into a tf32 value and the tf32 rest, and add three products of those: on this "
            f"device up to {times(faster)} as fast. One tf32 product alone is not accurate enough.",
            kernel=kernel.name,
            figures={"fma_use": counters.fma_use or 0.0, "tensor_use": counters.tensor_use or 0.0},
            gain_us=kernel.us * max(0.0, 1 - 1 / faster),
        )


def divergence(facts: Facts) -> Iterator[Finding]:
    """Instructions that only some of a warp's threads take part in."""
    for kernel, counters in _counted(facts):
        lanes = counters.threads_per_instruction
        if lanes is None or not 0 < lanes < _LANES:
            continue
        yield Finding(
            code="compute.divergence",
            message=f"Of the 32 threads of a warp {lanes:.3g} take part in an instruction of {short(kernel.name)} on "
            "average.",
            advice="Let whole warps take one branch, and choose block sizes that are multiples of 32.",
            kernel=kernel.name,
            figures={"threads": lanes},
            gain_us=kernel.us * (counters.compute_throughput or 0.0) * (1 - lanes / 32),
        )


def tail(facts: Facts) -> Iterator[Finding]:
    """A last wave of blocks that leaves most SMs empty."""
    for kernel in facts.kernels:
        fits = kernel.occupancy
        if fits is None or not 1 < fits.waves < 4:
            continue
        wasted = 1 - fits.waves / math.ceil(fits.waves)
        if wasted < _TAIL:
            continue
        yield Finding(
            code="launch.tail",
            message=f"{short(kernel.name)}'s {math.prod(kernel.grid):,} blocks are {fits.waves:.2f} times what the "
            f"device holds at once, so that the last of {math.ceil(fits.waves)} rounds leaves most SMs empty.",
            advice="Choose the number of blocks as a multiple of what fits, with a loop over the rest in each, or use "
            "smaller blocks.",
            kernel=kernel.name,
            figures={"waves": fits.waves, "wasted": wasted, "kernel_time": us(kernel.us)},
            gain_us=kernel.us * wasted,
        )


def _counted(facts: Facts) -> Iterator[tuple[KernelProfile, Counters]]:
    for kernel in facts.kernels:
        if kernel.counters is not None:
            yield kernel, kernel.counters
