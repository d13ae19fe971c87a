"""What the device's events read beside a kernel, measured once for a device.

    reading of the smallest kernel there is  -  its own duration, as CUPTI gives it  =  offset

An empty pair of events reads less than that: between two events around a kernel lies the launch of the kernel as well.
The offset is the same for short kernels and long ones, and differs a little from process to process, with where the
driver has put things. So it is read in several fresh processes, with the loop that times submissions, and how far they
are apart is part of every interval.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch

from harness.clock.bench import Own, readings_alone
from harness.clock.cold import flush_bytes
from harness.clock.stats import clock_step, median_of, student
from harness.machine.device import Device
from harness.sandbox import Sandbox
from harness.wire.kineto import started
from harness.workers.loop import Loop
from harness.workers.process import Terms, WorkerProcess
from harness.workers.worker import Worker, refuse_to_build

_PROCESSES = 6
_READINGS = 60
_FIRST = 5
"""Readings before those: what only first loops do is not looked at."""


@dataclass(frozen=True)
class Offset:
    """What a clock reads beside a call."""

    us: float
    """To be taken off each reading."""
    half_us: float
    """Half width of its 95 % interval, for one process."""
    null_us: float | None = None
    """Duration of the smallest kernel; None where the offset is what an empty pair reads."""


def measure_offset(device: Device, sandbox: Sandbox) -> Offset:
    """Measure a GPU that nobody else uses meanwhile: some seconds, most of it starting processes."""
    null_us = null_kernel_us(torch.device(device.torch_name))
    workers: list[Worker] = []
    try:
        for _ in range(_PROCESSES):
            process = WorkerProcess(Terms(sandbox, device.place, None), memory_bytes=None)
            workers.append(
                Worker(process, device, flush_bytes=flush_bytes(device), patience_s=600.0, on_build=refuse_to_build)
            )
        medians = [_median(worker, "empty" if null_us is None else "null") for worker in workers]
    finally:
        for worker in workers:
            worker.close()
    apart = statistics.stdev(medians)
    return Offset(statistics.fmean(medians) - (null_us or 0.0), student(_PROCESSES - 1) * apart, null_us)


def null_kernel_us(device: torch.device) -> float | None:
    """Duration of the smallest kernel by CUPTI, caches cold, microseconds; None where CUPTI may not look."""
    cell = torch.zeros(1, device=device)
    filler = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    cell.zero_()
    seen = started(on_gpu=True)
    try:
        for _ in range(_READINGS):
            filler.zero_()
            cell.zero_()
    finally:
        seen.__exit__(None, None, None)
    durations = [float(event.device_time) for event in seen.function_events if "elementwise" in event.name]
    # Of each pair the second; the first is the filler's, tens of microseconds long.
    short = sorted(durations)[: len(durations) // 2]
    return statistics.median(short) if len(short) >= _READINGS // 2 else None


def _median(worker: Worker, kind: Own) -> float:
    worker.wait_ready()
    worker.open_device()
    readings = readings_alone(worker, Loop(turns=1, kind=kind), _FIRST + _READINGS)
    worker.close()
    kept = readings[_FIRST:]
    return median_of(kept, clock_step(kept))
