"""From a trace and a page to a profile, for two samples. The figures are what they should read on an H200 by counting
their bytes and sectors, not measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from profile_samples import H200, PEAKS, raw_page, seen

from harness.judge.evidence import Evidence
from harness.load.problem import Problem
from harness.profiling.counted import Counted
from harness.profiling.rawpage import launches
from harness.profiling.result import CallTime, CounterSource, Profile
from harness.profiling.stage import ProfileStage, Setting
from harness.seeds import Seeds

ROOT = Path(__file__).resolve().parents[2]
ELEMENTS = 32 * 4096 * 256
NEEDED = 3 * 4 * ELEMENTS
PASS = {
    "kernel": "double_segments(const float *, const float *, float *, float *, long long, int, int, int)",
    "grid": "(131072, 1, 1)",
    "time_ns": "182,000",
    "dram_read_bytes": 8 * ELEMENTS,
    "dram_write_bytes": 8 * ELEMENTS,
    "dram_throughput": "59.9",
    "memory_throughput": "63.1",
    "compute_throughput": "31.0",
    "load_sectors": 4 * ELEMENTS // 8,
    "load_requests": 4 * ELEMENTS // 32,
    "store_sectors": 2 * ELEMENTS // 8,
    "store_requests": 2 * ELEMENTS // 32,
    "touched_sectors": 6 * ELEMENTS // 8,
    "ideal_sectors": 6 * ELEMENTS // 8,
}
STRIDED = {
    "kernel": "scan_channel(const float *, const float *, float *, int, int)",
    "grid": "(8192, 1, 1)",
    "block": "(1024, 1, 1)",
    "time_ns": "1,010,000",
    "dram_read_bytes": 9 * ELEMENTS,
    "dram_write_bytes": 5 * ELEMENTS,
    "dram_throughput": "9.1",
    "l1_throughput": "71",
    "memory_throughput": "71",
    "compute_throughput": "38",
    "load_sectors": 2 * ELEMENTS,
    "load_requests": 2 * ELEMENTS // 32,
    "store_sectors": ELEMENTS,
    "store_requests": ELEMENTS // 32,
    "touched_sectors": 3 * ELEMENTS,
    "ideal_sectors": 3 * ELEMENTS // 8,
    "shared_wavefronts": 70e6,
    "bank_conflicts": 1e5,
}


class GpuWorker:
    """Nothing but where its tensors are."""

    torch_device = torch.device("cuda")


def put_together(name: str, us: float, device: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Profile:
    problem = Problem.load(ROOT / "problems" / "linear_recurrence")
    setting = Setting(
        problem=problem,
        workload=problem.workload(None, "cuda"),
        device=H200,
        peaks=PEAKS,
        source=(ROOT / "submissions" / name).read_text(),
        call_limit_s=10.0,
    )
    stage = ProfileStage(GpuWorker(), None, Seeds(1), Evidence(), setting)  # type: ignore[arg-type]
    counted = Counted(CounterSource(read=True, tool="Nsight Compute", launches=len(rows)), launches(raw_page(*rows)))
    call = CallTime(us=us, range_us=(us, us), host_us=50.0, calls=9, floor_us=91.5, needed_bytes=NEEDED)
    return stage._put_together(call, seen(device), counted)


def test_twelve_coalesced_passes_are_memory_bound_by_their_traffic():
    one = {"name": "double_segments(float const*, float const*, float*, float*, long long, int, int, int)"}
    one |= {"us": 181.0, "grid": [131072, 1, 1], "block": [256, 1, 1], "registers": 24}
    found = put_together("recurrence_v2.py", 2190.0, [{**one, "start_us": 182.0 * n} for n in range(12)], [PASS] * 12)
    (kernel,) = found.kernels
    assert (kernel.launches, kernel.own, kernel.origin, kernel.bound) == (12, True, "text", "memory")
    assert kernel.counters is not None
    assert kernel.counters.launches == 12
    assert kernel.counters.sector_factor == 1.0
    assert kernel.counters.dram_bytes_per_s == pytest.approx(16 * ELEMENTS / 182e-6)
    assert found.bound == "memory"
    assert found.traffic is not None
    assert found.traffic.factor == pytest.approx(16.0)
    assert found.traffic.asked_factor == pytest.approx(24.0)
    first = found.findings[0]
    assert first.code == "memory.traffic"
    assert "16 times the 403 MB" in first.message
    assert first.gain == pytest.approx(0.92, abs=0.02)


def test_strided_loads_are_memory_bound_by_sectors_that_are_hardly_used():
    one = {"name": "scan_channel(float const*, float const*, float*, int, int)", "us": 1008.0, "start_us": 0.0}
    one |= {"grid": [8192, 1, 1], "block": [1024, 1, 1], "registers": 28, "shared_bytes": 32768}
    found = put_together("recurrence_v1.py", 1021.0, [one], [STRIDED])
    (kernel,) = found.kernels
    assert kernel.bound == "memory"
    assert kernel.counters is not None
    assert (kernel.counters.sector_factor, kernel.counters.sectors_per_request) == (8.0, 32.0)
    assert kernel.occupancy is not None
    assert kernel.occupancy.share == 1.0
    assert found.traffic is not None
    assert found.traffic.asked_factor == pytest.approx(8.0)
    assert [each.code for each in found.findings] == ["memory.uncoalesced"]
    assert "8 times the sectors" in found.findings[0].message
    assert "of each 32 bytes it uses 4" in found.findings[0].message


def test_counters_of_the_first_launches_stand_for_the_rest():
    one = {"name": PASS["kernel"], "us": 181.0, "grid": [131072, 1, 1], "block": [256, 1, 1]}
    found = put_together("recurrence_v2.py", 2190.0, [{**one, "start_us": 182.0 * n} for n in range(12)], [PASS] * 3)
    assert found.traffic is not None
    assert found.traffic.factor == pytest.approx(16.0)
    assert found.kernels[0].counters is not None
    assert found.kernels[0].counters.launches == 3
