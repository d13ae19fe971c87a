"""Nsight Compute's raw page, from text written by hand after its format, and from anything else."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st
from profile_samples import raw_page

from harness.profiling.metrics import METRICS, PERCENT, STALLS, kind_of
from harness.profiling.ncu import options, reading, unknown_metrics, why_nothing
from harness.profiling.rawpage import launches, said

PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0."
)


def test_a_page_becomes_launches_with_numbers():
    text = raw_page(
        {"time_ns": "181,472", "dram_read_bytes": "268435456", "dram_throughput": "61.25", "occupancy": "n/a"},
        {"kernel": 'f<"a,b">(int)', "block": "(32, 4, 1)", "grid": "(7, 1, 1)", "time_ns": "1.5e+03"},
    )
    one, other = launches(text)
    assert one.kernel == "stream(const float *, float *, int)"
    assert (one.grid, one.block) == ((131072, 1, 1), (256, 1, 1))
    assert one.values == {"time_ns": 181472.0, "dram_read_bytes": 268435456.0, "dram_throughput": 0.6125}
    assert (other.kernel, other.block, other.values) == ('f<"a,b">(int)', (32, 4, 1), {"time_ns": 1500.0})


def test_units_other_than_the_base_are_scaled():
    text = raw_page(
        {"time_ns": "1.5", "dram_read_bytes": "2"}, units={"time_ns": "msecond", "dram_read_bytes": "Gbyte"}
    )
    (launch,) = launches(text)
    assert launch.values == {"time_ns": 1.5e6, "dram_read_bytes": 2e9}


def test_a_line_that_is_broken_takes_no_other_with_it():
    lines = raw_page({"time_ns": "1"}, {"time_ns": "2"}, {"time_ns": "3"}).splitlines()
    lines[-2] = lines[-2].replace('"python3.12"', '"python3.12')
    assert [launch.values["time_ns"] for launch in launches("\n".join(lines))] == [1.0, 3.0]


def test_numbers_that_are_none_are_left_out():
    (launch,) = launches(raw_page({"time_ns": "nan", "dram_read_bytes": "inf", "sectors": "-3", "fma_use": "12.5"}))
    assert launch.values == {"fma_use": 0.125}


@given(st.text() | st.lists(st.text(alphabet='",\n=0 ID'), max_size=30).map(lambda rows: raw_page({}) + "".join(rows)))
def test_no_text_is_too_odd(text):
    for launch in launches(text):
        assert all(math.isfinite(value) and value >= 0 for value in launch.values.values())
    said(text)


def test_a_flood_of_launches_has_an_end():
    line = raw_page({"time_ns": "1"}).splitlines()
    assert len(launches("\n".join([*line, *line[-1:] * 5000]))) == 1000


def test_every_metric_has_a_kind_and_shares_are_known_as_such():
    assert {kind_of(name) for name in METRICS} == {"sum", "mean"}
    assert {"dram_throughput", "occupancy", "occupancy_limit", "l2_hit_rate"} <= PERCENT
    assert not PERCENT & {"time_ns", "touched_sectors", "issue_rate", "limit_registers"}
    assert all(f"stall_{name}" in METRICS for name in STALLS)
    assert len(set(METRICS.values())) == len(METRICS)


def test_nsight_compute_is_asked_for_the_marked_call_alone_and_leaves_the_clocks():
    given_ = options("/proc/self/fd/9", reading(["a", "b"]))
    pairs = dict(itertools.pairwise(given_))
    assert pairs["--clock-control"] == "none"
    assert pairs["--profile-from-start"] == "off"
    assert pairs["--metrics"] == "a,b"
    assert pairs["--log-file"] == "/proc/self/fd/9"
    assert int(pairs["--launch-count"]) > 0


def test_a_missing_permission_is_explained_with_what_an_administrator_does():
    why = why_nothing(PERMISSION, "bubblewrap")
    assert "ERR_NVGPUCTRPERM" in why
    assert "NVreg_RestrictProfilingToAdminUsers=0" in why
    assert "--sandbox none" in why
    assert "--sandbox none" not in why_nothing(PERMISSION, "none")


def test_other_errors_are_quoted_and_nothing_at_all_is_said_as_well():
    assert "LibraryNotLoaded" in why_nothing("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "none")
    assert "No kernels were profiled" in why_nothing("==WARNING== No kernels were profiled.", "none")
    assert "printed no launch" in why_nothing("", "none")


def test_metrics_that_a_chip_lacks_are_named():
    text = f"==ERROR== Failed to find metric {METRICS['tensor_use']}"
    assert unknown_metrics(text) == [METRICS["tensor_use"]]
    assert unknown_metrics(f"==ERROR== Unknown metrics:\n  {METRICS['fma_use']}\n") == [METRICS["fma_use"]]
    assert unknown_metrics(f"==PROF== {METRICS['tensor_use']}") == []
