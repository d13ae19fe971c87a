"""The inside clock: times of calls as the worker's own process sees them. Claims like everything else here.

One loop serves every measurement, so that whatever is not the call costs the same in all of them:

    each turn:  L2 made cold -> (device mode) events around the call, behind work that is queued already
                             -> (host mode)   the host's clock around the call and the wait for the device

An empty loop has turns without a call; a probe has turns with a small copy of our own. The loop only runs and waits;
readings are taken afterwards, since the grader's own clock runs over the loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from harness.worker.memory import CudaMemory

Mode = Literal["device", "host"]
Call = Callable[[], Any]

_CYCLES_PER_US = 2000
"""Generous for today's clocks: a queue that is held up a little longer than asked does no harm."""
_PROBE_BYTES = 8 << 20


class CudaClock:
    """Turns on a CUDA device, all on the current stream."""

    def __init__(self, device: torch.device, flush_bytes: int, memory: CudaMemory) -> None:
        self._device = device
        self._memory = memory
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device=device)
        self._probe = torch.zeros(2, _PROBE_BYTES, dtype=torch.uint8, device=device)
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._elapsed_us: list[float] = []
        self._host_us: list[float] = []
        self._turns = 0

    def probe(self) -> None:
        """A small call of ours, whose two times show what lies between the clocks."""
        self._probe[0].copy_(self._probe[1])

    def run(
        self,
        calls: Sequence[Call | None],
        *,
        mode: Mode,
        queue_us: float,
        ready: Callable[[int], None],
        keep: Callable[[int, Any], None],
    ) -> None:
        """Make the calls one after another and wait for the last; None is a turn without a call.

        `ready` is called before each turn and `keep` with each result as it is returned, both outside the timed span.
        In device mode `queue_us` microseconds of idling are queued before each call.
        """
        while len(self._events) < len(calls):
            self._events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
        self._elapsed_us, self._host_us, self._turns = [], [], len(calls)
        self._memory.reset_persisting()
        torch.cuda.synchronize(self._device)
        if mode == "host":
            self._run_host(calls, ready, keep)
            return
        cycles = int(queue_us * _CYCLES_PER_US)
        for turn, call in enumerate(calls):
            start, end = self._events[turn]
            ready(turn)
            if cycles:
                torch.cuda._sleep(cycles)
            self._flush.zero_()
            start.record()
            before = time.perf_counter_ns()
            result = None if call is None else call()
            after = time.perf_counter_ns()
            end.record()
            keep(turn, result)
            self._host_us.append((after - before) / 1e3)
        torch.cuda.synchronize(self._device)

    def readings(self) -> tuple[list[float], list[float]]:
        """Microseconds of each call of the last run, and of the host's side of it."""
        if not self._elapsed_us:
            self._elapsed_us = [start.elapsed_time(end) * 1e3 for start, end in self._events[: self._turns]]
        return self._elapsed_us, self._host_us

    def _run_host(
        self,
        calls: Sequence[Call | None],
        ready: Callable[[int], None],
        keep: Callable[[int, Any], None],
    ) -> None:
        for turn, call in enumerate(calls):
            ready(turn)
            self._flush.zero_()
            torch.cuda.synchronize(self._device)
            before = time.perf_counter_ns()
            result = None if call is None else call()
            torch.cuda.synchronize(self._device)
            after = time.perf_counter_ns()
            keep(turn, result)
            self._elapsed_us.append((after - before) / 1e3)
        self._host_us = self._elapsed_us


class CpuClock:
    """Turns on a CPU, whose only clock is the host's."""

    def __init__(self, flush_bytes: int) -> None:
        self._flush = torch.zeros(flush_bytes, dtype=torch.uint8)
        self._probe = torch.zeros(2, _PROBE_BYTES, dtype=torch.uint8)
        self._elapsed_us: list[float] = []

    def probe(self) -> None:
        """A small call of ours, whose two times show what lies between the clocks."""
        self._probe[0].copy_(self._probe[1])

    def run(
        self,
        calls: Sequence[Call | None],
        *,
        mode: Mode,
        queue_us: float,
        ready: Callable[[int], None],
        keep: Callable[[int, Any], None],
    ) -> None:
        """As on a CUDA device in host mode; there is no queue."""
        self._elapsed_us = []
        for turn, call in enumerate(calls):
            ready(turn)
            self._flush.add_(1)
            before = time.perf_counter_ns()
            result = None if call is None else call()
            after = time.perf_counter_ns()
            keep(turn, result)
            self._elapsed_us.append((after - before) / 1e3)

    def readings(self) -> tuple[list[float], list[float]]:
        """Microseconds of each call of the last run, twice: a CPU is its own host."""
        return self._elapsed_us, self._elapsed_us
