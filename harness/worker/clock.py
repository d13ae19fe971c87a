"""The inside clock: times of calls as the worker's own process sees them. Claims like everything else here.

One loop serves every measurement, so that whatever is not the call costs the same in all of them:

    begin()     (device mode) the device waits until the grader lets it go on
    each turn:  before(turn)
                L2 made cold, as far as it shall be
                (device mode) events around the call, behind work that is queued already
                (host mode)   the host's clock around the call and the wait for the device
                after(turn, result)
                (device mode) one more event
                mark(0) after some turns, mark(1) after the last
    at the end: last(), then the wait for the device
    queued(n)   (device mode) after each turn, and once all are queued

The loop only runs and waits; readings are taken afterwards, since the grader's own clock runs over the loop.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from harness.worker.memory import CudaMemory

Call = Callable[[], Any]

_CYCLES_PER_US = 2000
"""Generous for today's clocks: a queue that is held up a little longer than asked does no harm."""
_AWAKE_US, _ASLEEP_S = 1000, 0.02
"""A device that has had nothing to do takes a while to be as quick as it can: it is kept busy so long before a loop
that begins so many seconds after the one before."""
_BUSY_CALLS, _BUSY_S = 20, 0.2
"""Calls whose processor time is taken, and how long they may take."""


@dataclass(frozen=True)
class Turns:
    """What a loop is made of."""

    calls: Sequence[Call | None]
    """Made one after another; None is a turn without a call."""
    mode: Literal["device", "host"]
    """How a call is timed."""
    caches: Literal["cold", "warm", "left"]
    """Emptied before each call; each call made twice and the second timed; as they are."""
    begin: Callable[[], None]
    """Called once, before the first turn."""
    before: Callable[[int], None]
    """Called before each turn, outside the timed span."""
    after: Callable[[int, Any], None]
    """Called with each result as it is returned, outside the timed span."""
    marked: int
    """Turns before the first of two marks; 0: there are none."""
    mark: Callable[[int], None]
    """Called with 0 after so many turns, and with 1 after the last."""
    last: Callable[[], None]
    """Called after the last turn, before the device is waited for: what is queued here takes no turn of the host's
    afterwards."""

    queued: Callable[[int, bool], None]
    """Called in device mode with the turns that are queued, and whether these are all and what follows them."""

    def mark_after(self, turn: int) -> None:
        """Put a mark, where one follows this turn."""
        if self.marked and turn + 1 in (self.marked, len(self.calls)):
            self.mark(0 if turn + 1 == self.marked else 1)


class CudaClock:
    """Turns on a CUDA device, all on the current stream."""

    def __init__(self, device: torch.device, flush_bytes: int, memory: CudaMemory) -> None:
        self._device = device
        self._memory = memory
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device=device)
        self._cell = torch.zeros(1, device=device)
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event, torch.cuda.Event]] = []
        self._elapsed_us: list[float] = []
        self._host_us: list[float] = []
        self._ended = -math.inf
        self._count = self._first = 0
        self._in_order = False

    def null(self) -> None:
        """The smallest kernel that torch has: what it reads beside its own duration lies in the clock."""
        self._cell.zero_()

    def get_ready(self, turns: Turns) -> None:
        """Do what can be done before the loop begins."""
        while len(self._events) < len(turns.calls):
            start, end, last = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            for event in (start, end, last):
                event.record()  # only now the driver makes one, and not in a loop that is timed
            self._events.append((start, end, last))
        self._elapsed_us, self._host_us, self._count, self._first = [], [], len(turns.calls), turns.marked
        self._in_order = turns.mode == "device"
        self._memory.reset_limits()
        if time.monotonic() - self._ended > _ASLEEP_S:
            torch.cuda._sleep(_AWAKE_US * _CYCLES_PER_US)
        torch.cuda.synchronize(self._device)

    def run(self, turns: Turns) -> None:
        """Make the calls and wait for the last."""
        self._run(turns)
        self._ended = time.monotonic()

    def _run(self, turns: Turns) -> None:
        if turns.mode == "host":
            self._elapsed_us = self._host_us = _host_readings(turns, self._flush.zero_, self._wait)
            turns.last()
            self._wait()
            return
        turns.begin()
        for turn, call in enumerate(turns.calls):
            start, end, last = self._events[turn]
            turns.before(turn)
            if turns.caches == "cold":
                self._flush.zero_()
            elif turns.caches == "warm" and call is not None:
                call()
            start.record()
            began = time.perf_counter_ns()
            result = None if call is None else call()
            ended = time.perf_counter_ns()
            end.record()
            turns.after(turn, result)
            last.record()
            turns.mark_after(turn)
            self._host_us.append((ended - began) / 1e3)
            turns.queued(turn + 1, False)
        turns.last()
        turns.queued(len(turns.calls), True)
        torch.cuda.synchronize(self._device)

    def queue(self, idle_us: float) -> None:
        """Queue what stands before a call that is looked at and not timed: idling, in which the host gets ahead, and
        what makes caches cold."""
        torch.cuda._sleep(int(idle_us * _CYCLES_PER_US))
        self._flush.zero_()

    def readings(self) -> tuple[list[float], list[float]]:
        """Microseconds of each call of the last run, and of the host's side of it."""
        if not self._elapsed_us:
            self._elapsed_us = [start.elapsed_time(end) * 1e3 for start, end, _ in self._events[: self._count]]
        return self._elapsed_us, self._host_us

    def around_us(self) -> float:
        """Microseconds of the device for what precedes a call in a turn and for what follows it: the mean over the
        turns between the marks of the last run. 0 where there are none, and where the device was waited for."""
        if not (self._in_order and self._first):
            return 0.0
        turns = itertools.pairwise(self._events[self._first - 1 : self._count])
        return statistics.fmean(
            (before.elapsed_time(start) + end.elapsed_time(last)) * 1e3 for (_, _, before), (start, end, last) in turns
        )

    def busy_us(self, call: Call) -> tuple[float, float]:
        """Of a CPU only."""
        return 0.0, 0.0

    def _wait(self) -> None:
        torch.cuda.synchronize(self._device)


class CpuClock:
    """Turns on a CPU, whose only clock is the host's."""

    def __init__(self, flush_bytes: int) -> None:
        self._flush = torch.zeros(flush_bytes, dtype=torch.uint8)
        self._cell = torch.zeros(1)
        self._elapsed_us: list[float] = []

    def null(self) -> None:
        """The smallest call that torch has."""
        self._cell.zero_()

    def get_ready(self, turns: Turns) -> None:
        """Forget the loop before."""
        self._elapsed_us = []

    def run(self, turns: Turns) -> None:
        """As on a CUDA device in host mode; there is no queue."""
        self._elapsed_us = _host_readings(turns, lambda: self._flush.add_(1), _nothing)
        turns.last()

    def queue(self, idle_us: float) -> None:
        """There is no queue on a CPU; caches are made cold."""
        self._flush.add_(1)

    def readings(self) -> tuple[list[float], list[float]]:
        """Microseconds of each call of the last run, twice: a CPU is its own host."""
        return self._elapsed_us, self._elapsed_us

    def around_us(self) -> float:
        """As on a CUDA device in host mode."""
        return 0.0

    def busy_us(self, call: Call) -> tuple[float, float]:
        """Processor time of this process's threads, and wall clock, microseconds, over some calls together."""
        began, busy = time.perf_counter(), time.process_time()
        for _ in range(_BUSY_CALLS):
            call()
            if time.perf_counter() - began > _BUSY_S:
                break
        return (time.process_time() - busy) * 1e6, (time.perf_counter() - began) * 1e6


def _host_readings(turns: Turns, make_cold: Callable[[], object], wait: Callable[[], None]) -> list[float]:
    """Make the calls; microseconds of each by the host's clock, the wait for the device included."""
    readings = []
    turns.begin()
    for turn, call in enumerate(turns.calls):
        turns.before(turn)
        if turns.caches == "cold":
            make_cold()
        elif turns.caches == "warm" and call is not None:
            call()
        wait()
        began = time.perf_counter_ns()
        result = None if call is None else call()
        wait()
        ended = time.perf_counter_ns()
        turns.after(turn, result)
        turns.mark_after(turn)
        readings.append((ended - began) / 1e3)
    return readings


def _nothing() -> None:
    """A CPU has done its work when a call returns."""
