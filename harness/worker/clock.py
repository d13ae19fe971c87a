"""The inside clock: one call's time as the worker's own process sees it. A claim like everything else here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

_CYCLES_PER_US = 2000
"""Generous for today's clocks: a queue that is held up a little longer than asked does no harm."""


class CudaClock:
    """Device events around a call with cold L2, behind enough queued work that launching is hidden."""

    def __init__(self, device: torch.device, flush_bytes: int) -> None:
        self._device = device
        self._flush_bytes = flush_bytes
        self._flush: torch.Tensor | None = None
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def time(self, call: Callable[[], Any], keep: Callable[[Any], Any], queue_us: float) -> tuple[Any, float, float]:
        """Time `call()`; returns what `keep` makes of its result, microseconds on the device, microseconds on the host.

        `queue_us` microseconds of idling are queued first, then the write that evicts L2: as long as the host needs
        less than both to launch the call, the device never waits for the host within the timed span.
        """
        if self._flush is None:
            self._flush = torch.empty(self._flush_bytes, dtype=torch.uint8, device=self._device)
        if queue_us > 0:
            torch.cuda._sleep(int(queue_us * _CYCLES_PER_US))
        self._flush.zero_()
        self._start.record()
        before = time.perf_counter_ns()
        result = call()
        after = time.perf_counter_ns()
        self._end.record()
        kept = keep(result)
        del result
        torch.cuda.synchronize(self._device)
        return kept, self._start.elapsed_time(self._end) * 1e3, (after - before) / 1e3


class CpuClock:
    """The monotonic clock around a call, with the caches full of something else."""

    def __init__(self, flush_bytes: int) -> None:
        self._flush_bytes = flush_bytes
        self._flush: torch.Tensor | None = None

    def time(self, call: Callable[[], Any], keep: Callable[[Any], Any], queue_us: float) -> tuple[Any, float, float]:
        """Time `call()`; returns what `keep` makes of its result, and the microseconds twice: a CPU is its own host."""
        if self._flush is None:
            self._flush = torch.zeros(self._flush_bytes, dtype=torch.uint8)
        self._flush.add_(1)
        before = time.perf_counter_ns()
        result = call()
        after = time.perf_counter_ns()
        elapsed_us = (after - before) / 1e3
        return keep(result), elapsed_us, elapsed_us
