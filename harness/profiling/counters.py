"""From the launches that were counted to the counters of each kernel of the trace; pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.audit.kernels import base_name
from harness.profiling.metrics import METRICS, STALLS, kind_of
from harness.profiling.rawpage import CountedLaunch
from harness.profiling.result import Counters, Limiter
from harness.profiling.timeline import Group

_LIMITS: dict[str, Limiter] = {
    "limit_registers": "registers",
    "limit_shared_memory": "shared memory",
    "limit_threads": "threads",
    "limit_blocks": "blocks",
}


def matched(groups: Sequence[Group], counted: Sequence[CountedLaunch]) -> dict[int, list[CountedLaunch]]:
    """The counted launches of each group, by the group's place.

    Two runs of one call launch the same kernels in the same order, so the launches are matched by number where their
    names agree all along. Otherwise (several streams, a graph) by name, grid and block.
    """
    by_number = {number: place for place, group in enumerate(groups) for number in group.numbers}
    pairs = [(by_number.get(number), launch) for number, launch in enumerate(counted)]
    if all(place is not None and _same(groups[place], launch) for place, launch in pairs):
        aligned: list[tuple[int | None, CountedLaunch]] = pairs
    else:
        aligned = [(_place(groups, launch), launch) for launch in counted]
    found: dict[int, list[CountedLaunch]] = {}
    for place, launch in aligned:
        if place is not None:
            found.setdefault(place, []).append(launch)
    return found


def counters(launches: Sequence[CountedLaunch], peak_bytes_per_s: float | None) -> Counters | None:
    """What the launches of one kernel had together; None where not even their time was read."""
    together = {name: value for name in METRICS if (value := _together(name, launches)) is not None}
    time_ns = together.get("time_ns", 0.0)
    if not launches or time_ns <= 0:
        return None
    get = together.get
    read, written = get("dram_read_bytes"), get("dram_write_bytes")
    rate = None if read is None or written is None else (read + written) / time_ns * 1e9
    sectors = _sum(get("load_sectors"), get("store_sectors"))
    requests = _sum(get("load_requests"), get("store_requests"))
    factor = _sector_factor(get("touched_sectors"), get("ideal_sectors"))
    local = _sum(get("local_load_sectors"), get("local_store_sectors"))
    return Counters(
        launches=len(launches),
        time_us=time_ns / 1e3,
        dram_read_bytes=read,
        dram_write_bytes=written,
        dram_bytes_per_s=rate,
        share_of_peak=None if rate is None or not peak_bytes_per_s else rate / peak_bytes_per_s,
        dram_throughput=get("dram_throughput"),
        memory_throughput=get("memory_throughput"),
        compute_throughput=get("compute_throughput"),
        l1_throughput=get("l1_throughput"),
        l2_throughput=get("l2_throughput"),
        l1_hit_rate=get("l1_hit_rate"),
        l2_hit_rate=get("l2_hit_rate"),
        sectors=sectors,
        needed_sectors=None if sectors is None or factor is None else sectors / factor,
        sector_factor=factor,
        sectors_per_request=None if sectors is None or not requests else sectors / requests,
        local_sectors=local,
        shared_wavefronts=get("shared_wavefronts"),
        bank_conflicts=get("bank_conflicts"),
        occupancy=get("occupancy"),
        occupancy_limit=get("occupancy_limit"),
        limited_by=_limited_by(launches[0]),
        issue_rate=get("issue_rate"),
        threads_per_instruction=get("threads_per_instruction"),
        tensor_use=_tensor_use(get("tensor_use"), get("tensor_instructions")),
        fma_use=get("fma_use"),
        stalls={name: together[f"stall_{name}"] for name in STALLS if f"stall_{name}" in together},
    )


def _sector_factor(touched: float | None, ideal: float | None) -> float | None:
    """Lanes that read one address together touch fewer sectors than their bytes would fill side by side."""
    return None if touched is None or not ideal else max(1.0, touched / ideal)


def _together(name: str, launches: Sequence[CountedLaunch]) -> float | None:
    known = [launch for launch in launches if name in launch.values]
    if not known:
        return None
    values = [launch.values[name] for launch in known]
    if kind_of(name) == "sum":
        # All or nothing: half of a sum would look like little traffic.
        return sum(values) if len(known) == len(launches) else None
    weights = [launch.values.get("time_ns", 0.0) for launch in known]
    total = sum(weights)
    if total <= 0:
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total


def _tensor_use(use: float | None, instructions: float | None) -> float | None:
    """Where a chip does not have the figure under that name, no such instruction means idle."""
    return 0.0 if use is None and instructions == 0 else use


def _limited_by(launch: CountedLaunch) -> list[Limiter]:
    limits = {limiter: launch.values[name] for name, limiter in _LIMITS.items() if name in launch.values}
    return [limiter for limiter, blocks in limits.items() if blocks == min(limits.values())]


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _place(groups: Sequence[Group], launch: CountedLaunch) -> int | None:
    for place, group in enumerate(groups):
        _, grid, block, _, _ = group.launch
        if _same(group, launch) and (grid, block) == (launch.grid, launch.block):
            return place
    return None


def _same(group: Group, launch: CountedLaunch) -> bool:
    return base_name(group.launch[0]) == base_name(launch.kernel)
