"""Each rule on facts that call for it, and all of them on a kernel that nothing is wrong with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from profile_samples import CPU, H200, counters, facts, kernel

from harness.load.problem import FloorWay
from harness.profiling.occupancy import occupancy
from harness.profiling.result import (
    CallTime,
    CopyProfile,
    Counters,
    CounterSource,
    DeviceTime,
    Finding,
    HostCall,
    OperatorProfile,
    Profile,
    Traffic,
)
from harness.profiling.rules import MOST, RULES, findings

TRAFFIC = Traffic(needed_bytes=400e6, dram_bytes=6.4e9, factor=16.0, asked_bytes=9.6e9, asked_factor=24.0)
IDLE = DeviceTime(span_us=100.0, busy_us=40.0, gap_us=60.0, launches=50, streams=1)
SLOW = {"memory_throughput": 0.1, "compute_throughput": 0.1, "share_of_peak": 0.08, "dram_throughput": 0.07}
SPLIT = (FloorWay("fp32", {"fp32_flops": 1e12}), FloorWay("three tf32", {"tf32_flops": 3e12}))
CALL = CallTime(us=110.0, range_us=(109.0, 112.0), host_us=20.0, calls=9)
WAITING = CALL.model_copy(update={"host_bound": True})
WAIT = HostCall(name="cudaStreamSynchronize", count=2, us=50.0)


def fits(threads: int, registers: int = 32, shared: int = 0, blocks: int = 131072):
    return occupancy(H200, (blocks, 1, 1), (threads, 1, 1), registers, shared)


def latency(**fields):
    return {"bound": "latency", "counters": counters(**SLOW, **fields)}


CASES = {
    "memory.traffic": facts(kernel(launches=12), traffic=TRAFFIC),
    "memory.uncoalesced": facts(
        kernel(counters=counters(sector_factor=8.0, sectors_per_request=32.0, share_of_peak=0.3, dram_throughput=0.27))
    ),
    "memory.bandwidth": facts(kernel(counters=counters(share_of_peak=0.67, dram_bytes_per_s=2.95e12))),
    "launch.overhead": facts(kernel(us=40.0), device=IDLE),
    "host.synchronisation": facts(
        kernel(us=40.0), host=[WAIT], device=IDLE.model_copy(update={"launches": 2}), call=WAITING
    ),
    "host.allocation": facts(host=[HostCall(name="cudaMalloc", count=3, us=900.0)]),
    "memory.copies": facts(copies=[CopyProfile(name="Memcpy HtoD (Pageable -> Device)", count=1, us=50.0, bytes=9)]),
    "latency.few_threads": facts(kernel(grid=(32, 1, 1), **latency())),
    "occupancy.limited": facts(kernel(registers=255, occupancy=fits(256, 255), **latency())),
    "latency.stalls": facts(kernel(occupancy=fits(256), **latency(issue_rate=0.05))),
    "shared.bank_conflicts": facts(kernel(counters=counters(bank_conflicts=9e5, l1_throughput=0.9))),
    "registers.spills": facts(kernel(spilled_bytes=64, counters=counters(local_sectors=5e6))),
    "compute.tensor_cores_idle": facts(
        kernel(bound="compute", counters=counters(compute_throughput=0.9, fma_use=0.9)), ways=SPLIT
    ),
    "compute.divergence": facts(kernel(counters=counters(threads_per_instruction=9.0, compute_throughput=0.7))),
    "launch.tail": facts(kernel(occupancy=fits(1024, blocks=330))),
    "roofline.near": facts(call=CALL.model_copy(update={"floor_us": 100.0})),
    "cpu.idle_cores": facts(on=CPU, cores_used=1.0),
    "cpu.operator": facts(on=CPU, operators=[OperatorProfile(name="aten::mm", count=2, self_us=90.0, share=0.8)]),
}


@pytest.mark.parametrize("code", CASES)
def test_a_rule_finds_what_it_is_for_before_all_else(code):
    found = findings(CASES[code])
    assert found[0].code == code, [each.code for each in found]
    assert found[0].message.endswith(".")
    assert found[0].advice.endswith(".")
    assert found[0].figures


def test_every_rule_has_a_case():
    assert len(CASES) == len(RULES)


def test_nothing_is_found_where_nothing_is_wrong():
    assert findings(facts()) == []


def test_the_largest_gain_comes_first_five_are_told_and_none_reaches_below_the_floor():
    bad = counters(
        sector_factor=8.0,
        bank_conflicts=9e5,
        l1_throughput=0.9,
        local_sectors=5e6,
        threads_per_instruction=5.0,
        compute_throughput=0.5,
        dram_throughput=0.1,
        share_of_peak=0.1,
    )
    found = findings(
        facts(
            kernel(counters=bad, occupancy=fits(1024, blocks=330)),
            traffic=TRAFFIC,
            call=CALL.model_copy(update={"floor_us": 60.0}),
            host=[WAIT],
        )
    )
    assert len(found) == MOST
    gains = [each.gain for each in found if each.gain is not None]
    assert gains == sorted(gains, reverse=True)
    assert all(each.gain_us is None or each.gain_us <= 50.0 for each in found)
    assert all(each.gain_us is None or each.gain == pytest.approx(each.gain_us / 110.0) for each in found)


def test_of_several_kernels_a_rule_tells_the_one_with_the_largest_gain():
    bad = counters(sector_factor=8.0, dram_throughput=0.1)
    one, other = kernel(us=20.0, share=0.2, counters=bad), kernel(name="larger(int)", us=80.0, share=0.8, counters=bad)
    (found,) = [each for each in findings(facts(one, other)) if each.code == "memory.uncoalesced"]
    assert found.kernel == "larger(int)"


def test_a_busy_machine_is_not_held_against_a_call():
    assert findings(facts(on=CPU, cores_used=0.3)) == []


@pytest.mark.parametrize(
    ("used", "there", "told"),
    [
        (0.99, 2, True),
        (1.21, 2, True),
        (1.3, 2, True),
        (1.5, 2, False),
        (1.2, 1, False),
        (4.0, 8, True),
        (5.0, 8, False),
    ],
)
def test_one_thread_is_told_whatever_the_others_of_its_process_do(used: float, there: int, told: bool) -> None:
    device = CPU.model_copy(update={"cores": there})
    assert bool(findings(facts(on=device, cores_used=used))) == told


def test_a_librarys_kernel_is_not_to_be_rewritten():
    theirs = kernel(own=False, origin="library", counters=counters(sector_factor=8.0, dram_throughput=0.1))
    assert findings(facts(theirs))[0].advice.startswith("It is a library's kernel")
    gemm = kernel(own=False, origin="library", bound="compute", counters=counters(compute_throughput=0.9, fma_use=0.9))
    assert "tf32" in findings(facts(gemm, ways=SPLIT))[0].advice


def test_sectors_of_a_memory_that_is_hardly_used_gain_little():
    busy = counters(sector_factor=8.0, memory_throughput=0.7, dram_throughput=0.1)
    idle = counters(sector_factor=8.0, memory_throughput=0.06, dram_throughput=0.05, share_of_peak=0.05)
    (one,) = [each for each in findings(facts(kernel(counters=busy))) if each.code == "memory.uncoalesced"]
    (other,) = [each for each in findings(facts(kernel(counters=idle))) if each.code == "memory.uncoalesced"]
    assert one.gain_us == pytest.approx(80.0)
    assert other.gain_us == pytest.approx(8.0)


def test_kernels_of_hardly_any_time_are_not_spoken_of():
    assert findings(facts(kernel(), kernel(share=0.01, us=1.0, counters=counters(sector_factor=8.0)))) == []


def test_without_counters_what_launches_alone_show_is_told_without_a_figure_of_gain():
    small = kernel(grid=(32, 1, 1), counters=None, bound=None, spilled_bytes=64)
    found = findings(facts(small, traffic=None, counters=CounterSource(read=False, why_not="no permission")))
    assert [each.code for each in found] == ["latency.few_threads", "registers.spills"]
    assert all(each.gain is None for each in found)
    assert "8,192 threads, 3 % of the 270,336" in found[0].message


def test_a_memory_bound_sample_with_12_passes_names_its_traffic_first():
    """As recurrence_v2 is expected to read: coalesced, every pass through device memory."""
    passes = counters(launches=12, share_of_peak=0.67, dram_bytes_per_s=2.95e12, dram_throughput=0.6)
    found = findings(facts(kernel(launches=12, counters=passes), traffic=TRAFFIC))
    assert found[0].code == "memory.traffic"
    assert "16 times the 400 MB" in found[0].message
    assert "12 times" in found[0].message


def test_every_finding_and_figure_is_explained_on_the_page():
    page = (Path(__file__).resolve().parents[2] / "docs" / "profile.md").read_text()
    for model in (Counters, CallTime, DeviceTime, CounterSource, Finding, Profile):
        for name in model.model_fields:
            assert re.search(rf"`(\w+\.)?{name}`", page), f"{model.__name__}.{name}"
    for code in CASES:
        assert f"`{code}`" in page, code
