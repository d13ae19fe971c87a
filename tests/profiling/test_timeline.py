"""Kernels, gaps, copies and operators of one call."""

from __future__ import annotations

import pytest
from profile_samples import seen

from harness.profiling.timeline import copies, device_time, groups, host_calls, operators


def kernel(name: str, start: float, us: float, **fields: object) -> dict[str, object]:
    return {"name": name, "start_us": start, "us": us, **fields}


def test_launches_of_one_configuration_are_one_row_and_longest_come_first():
    found = groups(
        seen(
            [
                kernel("short", 0.0, 1.0),
                kernel("scan", 2.0, 5.0),
                kernel("scan", 8.0, 6.0),
                kernel("scan", 15.0, 1.0, grid=[9, 1, 1]),
            ]
        )
    )
    assert [(group.launch[0], group.launch[1], group.count, group.us, group.numbers) for group in found] == [
        ("scan", (4, 1, 1), 2, 11.0, (1, 2)),
        ("short", (4, 1, 1), 1, 1.0, (0,)),
        ("scan", (9, 1, 1), 1, 1.0, (3,)),
    ]


def test_gaps_are_where_nothing_runs_on_any_stream():
    found = device_time(
        seen(
            [
                kernel("a", 10.0, 5.0),
                kernel("b", 12.0, 8.0, stream=8),
                kernel("c", 13.0, 1.0),
                kernel("d", 24.0, 2.0),
                kernel("e", 27.5, 2.5),
            ]
        )
    )
    assert found is not None
    assert (found.span_us, found.busy_us, found.gap_us) == (20.0, 14.5, 5.5)
    assert [(gap.us, gap.after, gap.before) for gap in found.gaps] == [(4.0, "b", "d"), (1.5, "d", "e")]
    assert (found.launches, found.streams) == (5, 2)


def test_what_a_trace_could_not_hold_counts_as_busy():
    found = device_time(seen([kernel("a", 0.0, 5.0)], cut=3, cut_us=30.0))
    assert found is not None
    assert (found.busy_us, found.launches, found.left_out) == (35.0, 4, 3)


def test_no_device_work_is_no_device_time():
    assert device_time(seen()) is None


def test_copies_and_host_calls_are_summed_by_name():
    copied = [
        kernel("Memcpy HtoD", 0.0, 5.0, kind="copy", bytes=100),
        kernel("Memcpy HtoD", 6.0, 7.0, kind="copy", bytes=50),
        kernel("Memset", 20.0, 1.0, kind="fill", bytes=8),
        kernel("k", 22.0, 1.0),
    ]
    calls = [{"name": "cudaLaunchKernel", "start_us": float(n), "us": 2.0} for n in range(3)]
    found = seen(copied, calls)
    assert [(copy.name, copy.count, copy.us, copy.bytes) for copy in copies(found)] == [
        ("Memcpy HtoD", 2, 12.0, 150),
        ("Memset", 1, 1.0, 8),
    ]
    assert [(call.name, call.count, call.us) for call in host_calls(found)] == [("cudaLaunchKernel", 3, 6.0)]


def test_an_operators_own_time_leaves_out_those_that_it_calls_on_its_thread():
    found = operators(
        seen(
            host=[
                {"name": "aten::matmul", "start_us": 0.0, "us": 100.0},
                {"name": "aten::mm", "start_us": 10.0, "us": 80.0},
                {"name": "aten::empty", "start_us": 20.0, "us": 5.0},
                {"name": "aten::add", "start_us": 100.0, "us": 50.0},
                {"name": "aten::copy_", "start_us": 20.0, "us": 40.0, "thread": 2},
            ]
        )
    )
    assert {operator.name: operator.self_us for operator in found} == {
        "aten::mm": 75.0,
        "aten::add": 50.0,
        "aten::copy_": 40.0,
        "aten::matmul": 20.0,
        "aten::empty": 5.0,
    }
    assert sum(operator.share for operator in found) == pytest.approx(1.0)
    assert found[0].name == "aten::mm"
