"""Devices and their peaks, as figures: no test that uses these measures anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from harness.clock.offset import Offset
from harness.clock.peaks import Peaks, combine
from harness.report import DeviceInfo

H200 = DeviceInfo(
    kind="cuda",
    name="NVIDIA H200",
    index=0,
    uuid="GPU-01234567-89ab-cdef-0123-456789abcdef",
    compute_capability="9.0",
    sms=132,
    l2_bytes=62_914_560,
    sm_clock_max_mhz=1980,
    memory_clock_max_mhz=3201,
    memory_bus_bits=6144,
    shared_memory_per_block_bytes=49152,
    shared_memory_per_block_optin_bytes=232448,
    shared_memory_per_sm_bytes=233472,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    max_threads_per_block=1024,
    warp_size=32,
    driver="580.159",
    driver_cuda="13.0",
    torch="2.11.0",
    python="3.12.3",
    platform="Linux 6.8 x86_64",
)
CPU = DeviceInfo(
    kind="cpu",
    name="AMD EPYC",
    l2_bytes=32 << 20,
    cores=2,
    torch="2.11.0",
    python="3.12.3",
    platform="Linux 6.8 x86_64",
)
REACHED = {
    "bytes_per_s": 4.3e12,
    "fp64_flops": 6.0e13,
    "fp32_flops": 5.1e13,
    "tf32_flops": 4.0e14,
    "fp16_flops": 7.5e14,
}
REACHED_CPU = {
    "bytes_per_s": 1.1e10,
    "fp64_flops": 2.4e10,
    "fp32_flops": 7.0e10,
    "tf32_flops": 7.0e10,
    "fp16_flops": 4.3e11,
    "special_ops": 2.3e9,
}


def peaks(info: DeviceInfo = H200, reached: dict[str, float] | None = None, **changed: Any) -> Peaks:
    """The peaks of a device; `changed` replaces figures."""
    if reached is None:
        reached = REACHED if info.kind == "cuda" else REACHED_CPU
    made = combine(
        info,
        reached,
        launch_us=3.1,
        offset=Offset(2.4, 0.1, 1.0),
        measured_at=datetime(2026, 11, 29, 14, 0, tzinfo=UTC),
    )
    return made.model_copy(update=changed)
