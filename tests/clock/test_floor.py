"""The floor: what a workload takes at least, and the time below which nothing is believed."""

from __future__ import annotations

from pathlib import Path

import peaks_samples
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaks_samples import CPU, H200

from harness.clock.floor import BELOW, floor_us, with_floor
from harness.clock.peaks import pin_bandwidth
from harness.load.problem import FloorWay, Problem
from harness.report import Measurement, Timing

ROOT = Path(__file__).resolve().parents[2]
PEAKS = peaks_samples.peaks()
RESOURCES = ("bytes", "fp64_flops", "fp32_flops", "tf32_flops", "fp16_flops", "special_ops")

amounts = st.floats(min_value=0, max_value=1e16)
works = st.dictionaries(st.sampled_from(RESOURCES), amounts)
some_ways = st.lists(st.builds(FloorWay, st.text(min_size=1, max_size=8), works), min_size=1, max_size=4)


def us_of(ways, peaks=PEAKS):
    """The floor as a number; 0 where there is none."""
    floor = floor_us(ways, peaks)
    return 0.0 if floor is None else floor.us


def timing(median_us: float = 100.0) -> Timing:
    """A timing without a floor, and without whatever else a clock may add."""
    measured = Measurement(
        median_us=median_us,
        ci95_us=(median_us, median_us),
        mean_us=median_us,
        min_us=median_us,
        samples_us=[median_us],
        method="none",
    )
    return Timing.model_construct(candidate=measured, reference=measured, floor=None, floor_us=None)


def test_a_problem_without_a_floor_has_none():
    assert floor_us([], PEAKS) is None


def test_work_of_nothing_is_no_floor():
    assert floor_us([FloorWay("any", {"bytes": 0.0})], PEAKS) is None


def test_a_way_takes_its_longest_resource_and_the_fastest_way_counts():
    slow = FloorWay("slow", {"bytes": 1e9, "fp32_flops": 1e12})
    fast = FloorWay("fast", {"bytes": 1e9, "fp16_flops": 1e12})
    floor = floor_us([slow, fast], PEAKS)
    assert floor is not None
    assert (floor.way, floor.bound_by) == ("fast", "fp16_flops")
    assert floor.us == pytest.approx(1e12 / (132 * 4096 * 1.98e9) * 1e6)
    assert floor.per_resource_us["bytes"] == pytest.approx(1e9 / PEAKS.bytes_per_s * 1e6)


def test_a_resource_without_a_peak_is_left_out():
    unknown = peaks_samples.peaks(H200.model_copy(update={"compute_capability": "99.0"}))
    floor = floor_us([FloorWay("any", {"bytes": 1e6, "fp32_flops": 1e15})], unknown)
    assert floor is not None
    assert floor.per_resource_us.keys() == {"bytes"}
    assert floor_us([FloorWay("any", {"fp32_flops": 1e15})], unknown) is None


@given(some_ways)
def test_the_floor_is_the_least_of_the_longest(ways):
    rates = {"bytes": PEAKS.bytes_per_s} | {name: getattr(PEAKS, name) for name in RESOURCES[1:]}
    each = [max((amount / rates[name] * 1e6 for name, amount in way.work.items()), default=0.0) for way in ways]
    assert us_of(ways) == min(each)


@given(some_ways, st.sampled_from(RESOURCES), amounts)
def test_more_work_never_lowers_the_floor(ways, resource, more):
    loaded = [FloorWay(way.name, {**way.work, resource: way.work.get(resource, 0.0) + more}) for way in ways]
    assert us_of(loaded) >= us_of(ways)


@given(some_ways, st.builds(FloorWay, st.just("another"), works))
def test_another_legal_way_never_raises_the_floor(ways, another):
    assert us_of([*ways, another]) <= us_of(ways)


@given(some_ways, st.sampled_from(RESOURCES), st.floats(min_value=1, max_value=100))
def test_a_faster_device_never_has_a_higher_floor(ways, resource, factor):
    name = "bytes_per_s" if resource == "bytes" else resource
    faster = PEAKS.model_copy(update={name: getattr(PEAKS, name) * factor})
    assert us_of(ways, faster) <= us_of(ways)


@given(some_ways, st.one_of(st.none(), amounts))
def test_the_limit_is_at_most_0_9_of_the_floor(ways, output_bytes):
    floor = floor_us(ways, PEAKS, output_bytes=output_bytes)
    if floor is not None:
        assert floor.limit_us is not None
        assert 0 <= floor.limit_us <= BELOW * floor.us


@given(st.floats(min_value=1, max_value=1e15), st.floats(min_value=1e9, max_value=4.9e12))
def test_no_kernel_that_the_memory_pins_allow_is_below_the_limit(moved, copied):
    """However slow the measured copy was."""
    pins, known = pin_bandwidth(H200), peaks_samples.peaks(reached={"bytes_per_s": copied})
    floor = floor_us([FloorWay("any", {"bytes": moved})], known, output_bytes=0)
    assert pins is not None
    assert floor is not None
    assert floor.limit_us is not None
    assert floor.limit_us <= moved / pins * 1e6 * (1 + 1e-9)


@given(some_ways, amounts, amounts)
def test_the_more_may_stay_in_l2_the_lower_the_limit(ways, some, more):
    limits = [floor_us(ways, PEAKS, output_bytes=size) for size in (some, some + more)]
    if limits[0] is not None and limits[1] is not None:
        assert limits[0].us == limits[1].us
        assert limits[0].limit_us >= limits[1].limit_us


def test_outputs_up_to_the_size_of_l2_need_not_reach_memory():
    ways = [FloorWay("any", {"bytes": 300e6})]
    known = PEAKS.bytes_per_s

    def limit(output_bytes):
        floor = floor_us(ways, PEAKS, output_bytes=output_bytes)
        assert floor is not None
        return floor.limit_us

    assert limit(0) == pytest.approx(BELOW * 300e6 / known * 1e6)
    assert limit(1e6) == pytest.approx(BELOW * 299e6 / known * 1e6)
    assert limit(100e6) == pytest.approx(BELOW * (300e6 - H200.l2_bytes) / known * 1e6)
    assert limit(None) == limit(300e6) == limit(100e6)


def test_special_functions_may_be_polynomials_before_a_verdict_hangs_on_them():
    floor = floor_us([FloorWay("any", {"special_ops": 1e9})], PEAKS)
    assert floor is not None
    assert floor.us == pytest.approx(1e9 / (132 * 16 * 1.98e9) * 1e6)
    assert floor.limit_us == pytest.approx(BELOW * 1e9 / (132 * (16 + 25.6) * 1.98e9) * 1e6)


def test_a_cpus_floor_is_shown_and_decides_nothing():
    floor = floor_us([FloorWay("any", {"bytes": 1e9})], peaks_samples.peaks(CPU))
    assert floor is not None
    assert floor.us > 0
    assert floor.limit_us is None


def test_the_three_problems_on_an_h200():
    """By hand, from the statements' sizes and NVIDIA's figures."""
    expected = {
        "linear_recurrence": ("bytes", 402_653_184 / 4.425e12),
        "selective_scan": ("special_ops", 134_217_728 / (132 * 16 * 1.98e9)),
        "gemm_bn_scale_softmax": ("fp16_flops", 3 * 2 * 1024 * 8192 * 8192 / (132 * 4096 * 1.98e9)),
    }
    for name, (bound_by, seconds) in expected.items():
        problem = Problem.load(ROOT / "problems" / name)
        floor = floor_us(problem.floor_ways(problem.workload(None, "cuda")), PEAKS)
        assert floor is not None
        assert (floor.bound_by, floor.us) == (bound_by, pytest.approx(seconds * 1e6, rel=1e-3)), name


def test_a_timing_gets_its_floor():
    problem = Problem.load(ROOT / "problems" / "linear_recurrence")
    timed = with_floor(timing(), problem, problem.workload(None, "cuda"), PEAKS, output_bytes=134_217_728)
    assert timed.floor is not None
    assert timed.floor.us == timed.floor_us
    assert timed.floor.bound_by == "bytes"
    assert timed.floor.way == "any"
    assert timed.floor.peaks.keys() == timed.floor.per_resource_us.keys() == {"bytes", "fp32_flops"}
    assert timed.fraction_of_floor == timed.floor.us / 100


def test_a_timing_stays_as_it_is_where_the_problem_states_no_floor(tmp_path):
    (tmp_path / "problem.toml").touch()
    (tmp_path / "reference.py").write_text((ROOT / "problems" / "linear_recurrence" / "reference.py").read_text())
    problem = Problem.load(tmp_path)
    before = timing()
    assert with_floor(before, problem, problem.workload(None, "cuda"), PEAKS) is before
