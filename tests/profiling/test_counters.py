"""From counted launches to a kernel's counters, and from those to what bounds it."""

from __future__ import annotations

import pytest
from profile_samples import counters as sample
from profile_samples import facts, kernel

from harness.profiling.bounds import call_bound, idle_us, kernel_bound
from harness.profiling.counters import counters, matched
from harness.profiling.rawpage import CountedLaunch
from harness.profiling.result import CallTime, DeviceTime
from harness.profiling.rules import findings
from harness.profiling.stage import traffic
from harness.profiling.timeline import Group


def launch(name: str = "scan(const float *)", grid: tuple[int, ...] = (4, 1, 1), **values: float) -> CountedLaunch:
    return CountedLaunch(name, grid, (32, 1, 1), {"time_ns": 1000.0, **values})


def group(name: str, *numbers: int, grid: tuple[int, int, int] = (4, 1, 1)) -> Group:
    return Group((name, grid, (32, 1, 1), 16, 0), len(numbers), 1.0, numbers)


def test_launches_are_matched_by_order_where_the_names_agree():
    groups = [group("void scan<float>(float const*)", 0, 2), group("fill(float*)", 1)]
    counted = [launch("void scan<float>(const float *)"), launch("fill(float *)"), launch("void scan<float>(int)")]
    assert matched(groups, counted) == {0: [counted[0], counted[2]], 1: [counted[1]]}


def test_launches_in_another_order_are_matched_by_name_and_grid():
    groups = [group("scan(float const*)", 0), group("scan(float const*)", 1, grid=(9, 1, 1)), group("fill(int)", 2)]
    counted = [launch("fill(int)"), launch(grid=(9, 1, 1)), launch(), launch("unknown(int)")]
    assert matched(groups, counted) == {0: [counted[2]], 1: [counted[1]], 2: [counted[0]]}


def test_launches_add_up_and_shares_are_weighted_by_time():
    found = counters(
        [
            launch(time_ns=1000.0, dram_read_bytes=3000.0, dram_write_bytes=1000.0, dram_throughput=0.2),
            launch(time_ns=3000.0, dram_read_bytes=5000.0, dram_write_bytes=3000.0, dram_throughput=0.6),
        ],
        peak_bytes_per_s=6e9,
    )
    assert found is not None
    assert (found.launches, found.time_us) == (2, 4.0)
    assert found.dram_bytes_per_s == pytest.approx(12000 / 4e-6)
    assert found.share_of_peak == pytest.approx(0.5)
    assert found.dram_throughput == pytest.approx(0.5)


def test_sectors_asked_for_over_sectors_needed():
    # Loads use 4 bytes of each sector, stores all 32: 800 + 100 sectors for 100 + 100 sectors of data.
    found = counters(
        [
            launch(
                load_sectors=800.0,
                load_requests=25.0,
                store_sectors=100.0,
                store_requests=25.0,
                touched_sectors=900.0,
                ideal_sectors=200.0,
            )
        ],
        None,
    )
    assert found is not None
    assert (found.sectors, found.needed_sectors, found.sector_factor) == (900.0, 200.0, 4.5)
    assert found.sectors_per_request == 18.0


def test_asynchronous_copies_and_what_only_some_threads_do_count_as_their_own_instructions_have_it():
    # As read on an H200. Of scan in s6_v3: 5260018 sectors in L1; by instruction 5260288, 1056768 of them in excess.
    read = {"load_sectors": 5260018.0, "store_sectors": 0.0}
    found = counters([launch(**read, touched_sectors=5260288.0, ideal_sectors=5260288.0 - 1056768.0)], None)
    assert found is not None
    assert found.sector_factor == pytest.approx(1.251, abs=0.001)
    assert found.needed_sectors == pytest.approx(found.sectors / 1.2514, rel=1e-3)
    # Of recurrence_best, all of whose loads are cp.async: 12582912, none in excess.
    found = counters(
        [launch(load_sectors=8388608.0, store_sectors=4194304.0, touched_sectors=1e6, ideal_sectors=1e6)], None
    )
    assert found is not None
    assert (found.sector_factor, found.needed_sectors) == (1.0, 12582912.0)


def test_lanes_that_share_an_address_need_no_more_than_their_sector():
    found = counters([launch(load_sectors=10.0, store_sectors=0.0, touched_sectors=10.0, ideal_sectors=40.0)], None)
    assert found is not None
    assert (found.sector_factor, found.needed_sectors) == (1.0, 10.0)


def test_a_kernel_without_accesses_to_global_memory_has_no_such_factor():
    found = counters([launch(load_sectors=0.0, store_sectors=0.0, touched_sectors=0.0, ideal_sectors=0.0)], None)
    assert found is not None
    assert (found.sectors, found.sector_factor, found.needed_sectors) == (0.0, None, None)


def test_what_was_not_read_of_every_launch_is_no_sum():
    found = counters([launch(dram_read_bytes=1.0, dram_write_bytes=1.0), launch(dram_write_bytes=1.0)], 1e12)
    assert found is not None
    assert found.dram_read_bytes is None
    assert found.dram_bytes_per_s is None
    assert counters([CountedLaunch("k", (1,), (1,), {})], 1e12) is None
    assert counters([], 1e12) is None


def test_without_the_use_of_tensor_cores_no_instruction_of_theirs_means_idle():
    for values, use in (
        ({"tensor_instructions": 0.0}, 0.0),
        ({"tensor_instructions": 5.0}, None),
        ({"tensor_instructions": 0.0, "tensor_use": 0.4}, 0.4),
    ):
        found = counters([launch(**values)], None)
        assert found is not None
        assert found.tensor_use == use


def test_limiters_are_those_with_fewest_blocks():
    found = counters(
        [launch(limit_blocks=32.0, limit_registers=8.0, limit_shared_memory=8.0, limit_threads=16.0)], None
    )
    assert found is not None
    assert found.limited_by == ["registers", "shared memory"]


@pytest.mark.parametrize(
    ("fields", "bound"),
    [
        ({"memory_throughput": 0.8, "compute_throughput": 0.4}, "memory"),
        ({"memory_throughput": 0.5, "compute_throughput": 0.9}, "compute"),
        ({"memory_throughput": 0.5, "compute_throughput": 0.3, "share_of_peak": 0.55}, "latency"),
        # recurrence_v2 on an H200, which Nsight Compute calls so: of what copies reach it is more.
        ({"memory_throughput": 0.5986, "compute_throughput": 0.5653, "share_of_peak": 0.6351}, "latency"),
        ({"memory_throughput": None}, None),
    ],
)
def test_a_kernel_is_bound_by_what_is_used_most_or_by_latency(fields, bound):
    assert kernel_bound(sample(**{"share_of_peak": None, **fields})) == bound
    assert kernel_bound(None) is None


def test_gaps_that_only_the_trace_has_are_none_of_the_calls():
    # As traced on an H200 of gemm_bn_softmax_best: the host was late with its second kernel, because it was traced.
    call = CallTime(us=773.7, range_us=(771.2, 774.3), host_us=160.9, calls=9)
    traced = DeviceTime(span_us=872.8, busy_us=762.5, gap_us=110.3, launches=8, streams=1)
    assert idle_us(call, traced) == pytest.approx(11.2)
    assert idle_us(call, traced.model_copy(update={"busy_us": 800.0})) == 0.0
    assert idle_us(call.model_copy(update={"us": 900.0}), traced) == 110.3
    found = findings(facts(kernel(launches=8, us=762.5), device=traced, call=call))
    assert "launch.overhead" not in [finding.code for finding in found]


def test_a_call_is_bound_by_launches_where_the_device_is_idle_for_most_of_it():
    call = CallTime(us=100.0, range_us=(100.0, 100.0), host_us=90.0, calls=3)
    idle = DeviceTime(span_us=100.0, busy_us=30.0, gap_us=70.0, launches=10, streams=1)
    assert call_bound(call, idle, [kernel()])[0] == "launch"
    busy = idle.model_copy(update={"busy_us": 90.0, "gap_us": 10.0})
    assert call_bound(call, busy, [kernel()])[0] == "memory"
    assert call_bound(call.model_copy(update={"host_bound": True, "us": 400.0}), busy, [kernel()])[0] == "launch"
    unread = kernel(counters=None, bound=None)
    assert call_bound(call, busy, [unread]) == (
        None,
        "memory, compute and latency are told apart by counters, which were not read",
    )
    assert call_bound(call, None, []) == (None, "")


def test_traffic_counts_launches_that_were_not_read_like_those_that_were():
    read = sample(launches=2, dram_read_bytes=600e6, dram_write_bytes=200e6, sectors=50e6)
    found = traffic([kernel(launches=12, us=90.0, counters=read), kernel(us=10.0, counters=None)], 400e6)
    assert found is not None
    assert found.covered == 0.9
    assert found.dram_bytes == pytest.approx(800e6 * 6 / 0.9)
    assert found.factor == pytest.approx(800e6 * 6 / 0.9 / 400e6)
    assert found.asked_bytes == pytest.approx(50e6 * 32 * 6 / 0.9)
    assert traffic([kernel(counters=None)], 400e6) is None
    assert traffic([kernel()], None) is None
    assert facts().profile.traffic is not None
