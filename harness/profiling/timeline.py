"""From the events of one call to its kernels, gaps, copies and host calls; pure.

claims.Timeline --> Traced (events by name) --> DeviceTime, groups of launches, CopyProfile, HostCall
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.profiling.result import CopyProfile, DeviceTime, Gap, HostCall, OperatorProfile
from harness.workers import claims

_GAPS = 5
_GAP_LEAST_US = 0.05
"""Shorter ones are a clock's step."""
_HOST_CALLS = 20
_OPERATORS = 40

Launch = tuple[str, tuple[int, int, int], tuple[int, int, int], int, int]
"""Name, grid, block, registers, shared bytes: launches that agree in all of them are one row."""


@dataclass(frozen=True)
class Group:
    """Launches of one kernel in one configuration."""

    launch: Launch
    count: int
    us: float
    numbers: tuple[int, ...]
    """Which launches of the call, counted from 0 in the order of their start."""


def groups(seen: claims.Timeline) -> list[Group]:
    """The kernels, longest first."""
    found: dict[Launch, list[tuple[int, float]]] = {}
    kernels = [event for event in seen.device if event.kind == "kernel"]
    for number, event in enumerate(sorted(kernels, key=lambda each: each.start_us)):
        launch = (
            seen.names[event.name],
            _three(event.grid),
            _three(event.block),
            event.registers,
            event.shared_bytes,
        )
        found.setdefault(launch, []).append((number, event.us))
    made = [
        Group(launch, len(each), sum(us for _, us in each), tuple(number for number, _ in each))
        for launch, each in found.items()
    ]
    return sorted(made, key=lambda group: -group.us)


def device_time(seen: claims.Timeline) -> DeviceTime | None:
    """Busy and idle time of the device; None where it did nothing."""
    if not seen.device:
        return None
    ordered = sorted(seen.device, key=lambda event: event.start_us)
    busy_us, gaps = 0.0, []
    end, last = ordered[0].start_us, ordered[0]
    for event in ordered:
        idle = event.start_us - end
        if idle > _GAP_LEAST_US:
            gaps.append(Gap(us=idle, after=seen.names[last.name], before=seen.names[event.name]))
        finish = event.start_us + event.us
        # Work on several streams overlaps: what is counted is whether anything ran.
        busy_us += max(0.0, finish - max(end, event.start_us))
        if finish > end:
            end, last = finish, event
    span_us = end - ordered[0].start_us
    return DeviceTime(
        span_us=span_us + seen.cut_us,
        busy_us=busy_us + seen.cut_us,
        gap_us=sum(gap.us for gap in gaps),
        gaps=sorted(gaps, key=lambda gap: -gap.us)[:_GAPS],
        launches=sum(event.kind == "kernel" for event in ordered) + seen.cut,
        streams=len({event.stream for event in ordered}),
        left_out=seen.cut,
    )


def copies(seen: claims.Timeline) -> list[CopyProfile]:
    """Copies and fills by kind, longest first."""
    found: dict[str, list[claims.DeviceEvent]] = {}
    for event in seen.device:
        if event.kind != "kernel":
            found.setdefault(seen.names[event.name], []).append(event)
    made = [
        CopyProfile(
            name=name,
            count=len(each),
            us=sum(event.us for event in each),
            bytes=sum(event.bytes for event in each),
        )
        for name, each in found.items()
    ]
    return sorted(made, key=lambda copy: -copy.us)


def host_calls(seen: claims.Timeline) -> list[HostCall]:
    """Functions of CUDA's API by name, longest first."""
    found: dict[str, list[float]] = {}
    for event in seen.host:
        found.setdefault(seen.names[event.name], []).append(event.us)
    made = [HostCall(name=name, count=len(each), us=sum(each)) for name, each in found.items()]
    return sorted(made, key=lambda call: -call.us)[:_HOST_CALLS]


def operators(seen: claims.Timeline) -> list[OperatorProfile]:
    """Operators by time of their own, from how they lie within each other on each thread."""
    own = [0.0] * len(seen.host)
    for events in _by_thread(seen.host):
        open_: list[tuple[int, float]] = []
        for number, event in sorted(events, key=lambda pair: (pair[1].start_us, -pair[1].us)):
            while open_ and open_[-1][1] <= event.start_us:
                open_.pop()
            own[number] += event.us
            if open_:
                own[open_[-1][0]] -= event.us
            open_.append((number, event.start_us + event.us))
    found: dict[str, list[float]] = {}
    for event, us in zip(seen.host, own, strict=True):
        found.setdefault(seen.names[event.name], []).append(max(0.0, us))
    total = sum(map(sum, found.values())) or 1.0
    made = [
        OperatorProfile(name=name, count=len(each), self_us=sum(each), share=sum(each) / total)
        for name, each in found.items()
    ]
    return sorted(made, key=lambda operator: -operator.self_us)[:_OPERATORS]


def _by_thread(events: Iterable[claims.HostEvent]) -> Iterable[list[tuple[int, claims.HostEvent]]]:
    threads: dict[int, list[tuple[int, claims.HostEvent]]] = {}
    for number, event in enumerate(events):
        threads.setdefault(event.thread, []).append((number, event))
    return threads.values()


def _three(sizes: list[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z
