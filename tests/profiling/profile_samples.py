"""Hand-made parts of profiles. None of these figures was measured: they are written so that a rule applies, or not."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

from harness.clock.peaks import Peaks
from harness.load.problem import FloorWay
from harness.profiling.facts import Facts
from harness.profiling.metrics import METRICS
from harness.profiling.result import CallTime, Counters, CounterSource, DeviceTime, KernelProfile, Profile, Traffic
from harness.report import DeviceInfo
from harness.workers import claims

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x, 1)

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
RIGHT = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        y = (x @ x)
        y = (y - y.amax(1, keepdim=True)).exp()
        return y / y.sum(1, keepdim=True)
"""
TOML = """
[limits]
import_s = 30
construct_s = 30
call_s = 30

[workloads.default]
trials = 1

[floor]
bytes = "2 * 4 * 64 * 64"
"""
H200 = DeviceInfo(
    kind="cuda",
    name="NVIDIA H200",
    compute_capability="9.0",
    sms=132,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    max_threads_per_block=1024,
    warp_size=32,
    shared_memory_per_block_bytes=49152,
    shared_memory_per_block_optin_bytes=232448,
    shared_memory_per_sm_bytes=233472,
    torch="2.11.0",
    python="3.12.3",
    platform="Linux x86_64",
)
CPU = DeviceInfo(kind="cpu", name="a CPU", cores=8, torch="2.11.0", python="3.12.3", platform="Linux x86_64")
PEAKS = Peaks(
    device="NVIDIA H200",
    kind="cuda",
    bytes_per_s=4.4e12,
    fp64_flops=67e12,
    fp32_flops=67e12,
    tf32_flops=495e12,
    fp16_flops=990e12,
    special_ops=4.2e12,
    l2_bytes=60 << 20,
    launch_us=3.0,
    event_offset_us=1.0,
    event_offset_half_us=0.1,
    null_kernel_us=1.0,
    source={},
    reached={},
    measured_at=datetime(2026, 11, 29, tzinfo=UTC),
    torch="2.11.0",
    driver="580",
)


def counters(**fields: Any) -> Counters:
    """Of a kernel that nothing is wrong with: at the peak of the memory, coalesced, occupied."""
    return Counters(
        **{
            "launches": 1,
            "time_us": 100.0,
            "dram_read_bytes": 280e6,
            "dram_write_bytes": 120e6,
            "dram_bytes_per_s": 4.0e12,
            "share_of_peak": 0.91,
            "dram_throughput": 0.82,
            "memory_throughput": 0.82,
            "compute_throughput": 0.2,
            "l1_throughput": 0.3,
            "l2_throughput": 0.4,
            "sectors": 12.5e6,
            "needed_sectors": 12.5e6,
            "sector_factor": 1.0,
            "sectors_per_request": 16.0,
            "local_sectors": 0.0,
            "shared_wavefronts": 1e6,
            "bank_conflicts": 1e3,
            "occupancy": 0.9,
            "occupancy_limit": 1.0,
            "limited_by": ["threads"],
            "issue_rate": 0.3,
            "threads_per_instruction": 31.9,
            "tensor_use": 0.0,
            "fma_use": 0.1,
            "stalls": {"long_scoreboard": 20.0, "wait": 2.0},
            **fields,
        }
    )


def kernel(**fields: Any) -> KernelProfile:
    """The same kernel, with its launch."""
    return KernelProfile(
        **{
            "name": "stream(float const*, float*, int)",
            "origin": "extension",
            "own": True,
            "launches": 1,
            "us": 100.0,
            "share": 1.0,
            "grid": (131072, 1, 1),
            "block": (256, 1, 1),
            "registers": 32,
            "shared_bytes": 0,
            "bound": "memory",
            "counters": counters(),
            **fields,
        }
    )


def facts(*kernels: KernelProfile, on: DeviceInfo = H200, ways: tuple[FloorWay, ...] = (), **fields: Any) -> Facts:
    """Facts of a call of 110 us with these kernels, the usual one if there is none."""
    known = kernels or (kernel(),)
    return Facts(
        Profile(
            **{
                "call": CallTime(us=110.0, range_us=(109.0, 112.0), host_us=20.0, calls=9, needed_bytes=390e6),
                "device": DeviceTime(
                    span_us=102.0, busy_us=100.0, gap_us=2.0, launches=sum(k.launches for k in known), streams=1
                ),
                "kernels": list(known),
                "traffic": Traffic(
                    needed_bytes=390e6, dram_bytes=400e6, factor=1.03, asked_bytes=400e6, asked_factor=1.03
                ),
                "counters": CounterSource(read=True, tool="Nsight Compute 2025.3.1.0", launches=len(known)),
                **fields,
            }
        ),
        on,
        PEAKS if on.kind == "cuda" else None,
        ways,
    )


def seen(device: list[dict[str, Any]] = (), host: list[dict[str, Any]] = (), **fields: Any) -> claims.Timeline:  # type: ignore[assignment]
    """A timeline from events with their names in them."""
    names: dict[str, int] = {}

    def numbered(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "name": names.setdefault(event["name"], len(names))}

    one = {"kind": "kernel", "stream": 7, "grid": [4, 1, 1], "block": [32, 1, 1], "registers": 16}
    one |= {"shared_bytes": 0, "bytes": 0}
    made = {
        "type": "timeline",
        "ticket": "",
        "device": [{**one, **numbered(event)} for event in device],
        "host": [{"thread": 1, **numbered(event)} for event in host],
        "cut": 0,
        "cut_us": 0.0,
        "cpu_us": 0.0,
        "wall_us": 0.0,
        "note": "",
        **fields,
    }
    return claims.Timeline.model_validate({**made, "names": list(names)})


def raw_page(*rows: dict[str, Any], units: dict[str, str] | None = None) -> str:
    """Nsight Compute's raw page as CSV, written by hand after its format; `rows` by the names of metrics.py."""
    launch = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"]
    launch += ["Grid Size", "Device", "CC"]
    metrics = sorted({name for row in rows for name in row} & METRICS.keys())
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*launch, *(METRICS[name] for name in metrics)])
    writer.writerow([""] * len(launch) + [(units or {}).get(name, "") for name in metrics])
    for number, row in enumerate(rows):
        head = [number, 4711, "python3.12", "127.0.0.1", row.get("kernel", "stream(const float *, float *, int)")]
        head += [1, 7, row.get("block", "(256, 1, 1)"), row.get("grid", "(131072, 1, 1)"), 0, "9.0"]
        writer.writerow([*head, *(row.get(name, "") for name in metrics)])
    return (
        "==PROF== Connected to process 4711 (/usr/bin/python3.12)\n"
        '==PROF== Profiling "stream" - 0: 0%....50%....100% - 14 passes\n'
        f"==PROF== Disconnected from process 4711\n{out.getvalue()}"
    )
