"""What a device reaches: copies and matrix products as torch's libraries do them, and what submitting costs.

Each figure takes a few milliseconds on a large GPU and is given at most about 0.2 s; all together stay under 2 s once
the device's context exists. Nothing here knows what the figures are for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import psutil
import torch

_BUDGET_S = 0.12
_MAX_TURNS = 8
_RUNS = 3
"""Runs between two events, behind one that keeps the device busy while they are being submitted."""
_COPY_BYTES = 1 << 30
_CPU_COPY_BYTES = 128 << 20
_LAUNCHES = 300


def cuda_rates(device: torch.device) -> dict[str, float]:
    """Reached on a GPU, per second: `bytes_per_s` (read plus written) and the `..._flops` of products by cuBLAS.

    The current device's memory that this takes is given back. fp16_flops is the better of fp16 and bf16.
    """
    room = torch.cuda.mem_get_info(device)[0] // 4
    try:
        rates = {"bytes_per_s": _copy_rate(device, min(_COPY_BYTES, room // 2))}
        with _products_in("highest"):
            rates["fp64_flops"] = _product_rate(device, torch.float64, 2048, room)
            rates["fp32_flops"] = _product_rate(device, torch.float32, 4096, room)
            rates["fp16_flops"] = max(
                _product_rate(device, dtype, 8192, room) for dtype in (torch.float16, torch.bfloat16)
            )
        with _products_in("high"):
            rates["tf32_flops"] = _product_rate(device, torch.float32, 8192, room)
    finally:
        torch.cuda.empty_cache()
    return rates


def cpu_rates(last_cache_bytes: int | None) -> dict[str, float]:
    """Reached on the CPU with the threads that torch has: as `cuda_rates`, and `special_ops` by torch.exp.

    A CPU has no tf32: what asks for it runs at the rate of fp32. fp16_flops is bf16's where that is faster than fp32.
    """
    cpu = torch.device("cpu")
    room = int(psutil.virtual_memory().available) // 8
    fp32 = _product_rate(cpu, torch.float32, 768, room)
    numbers, results = torch.rand(1 << 18), torch.empty(1 << 18)
    return {
        "bytes_per_s": _copy_rate(cpu, min(max(_CPU_COPY_BYTES, 4 * (last_cache_bytes or 0)), room)),
        "fp64_flops": _product_rate(cpu, torch.float64, 768, room),
        "fp32_flops": fp32,
        "tf32_flops": fp32,
        "fp16_flops": max(fp32, _product_rate(cpu, torch.bfloat16, 512, room)),
        "special_ops": numbers.numel() / _best_s(cpu, lambda: torch.exp(numbers, out=results)),
    }


def launch_us(device: torch.device) -> float:
    """Microseconds of host time that submitting one small kernel through torch takes (a CPU: doing it)."""
    cell = torch.zeros(1, device=device)
    readings = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(_LAUNCHES):
            cell.zero_()
        readings.append(time.perf_counter() - began)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return min(readings) / _LAUNCHES * 1e6


def _copy_rate(device: torch.device, size: int) -> float:
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return 2 * size / _best_s(device, lambda: target.copy_(source))


def _product_rate(device: torch.device, dtype: torch.dtype, side: int, room: int) -> float:
    """Multiply-adds count 2. The matrices' side is halved until all three fit into `room` bytes."""
    while 3 * side * side * dtype.itemsize > room and side > 256:
        side //= 2
    left, right = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(left)
    return 2 * side**3 / _best_s(device, lambda: torch.mm(left, right, out=product))


def _best_s(device: torch.device, run: Callable[[], object]) -> float:
    """Seconds of one run, the least of several readings after a first one that does not count."""
    run()
    readings: list[float] = []
    began = time.perf_counter()
    while not readings or (len(readings) < _MAX_TURNS and time.perf_counter() - began < _BUDGET_S):
        readings.append(_cuda_s(device, run) if device.type == "cuda" else _cpu_s(run))
    return max(min(readings), 1e-12)


def _cuda_s(device: torch.device, run: Callable[[], object]) -> float:
    with torch.cuda.device(device):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        run()
        start.record()
        for _ in range(_RUNS):
            run()
        end.record()
        torch.cuda.synchronize(device)
    return float(start.elapsed_time(end)) / 1e3 / _RUNS


def _cpu_s(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


@contextlib.contextmanager
def _products_in(precision: str) -> Iterator[None]:
    """How products of fp32 matrices are done: 'highest' in fp32, 'high' in tf32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
