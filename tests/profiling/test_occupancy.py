"""Occupancy from launches: the figures of CUDA's own calculator for compute capability 9.0."""

from __future__ import annotations

import pytest
from profile_samples import CPU, H200

from harness.profiling.occupancy import occupancy


@pytest.mark.parametrize(
    ("block", "registers", "shared", "warps", "limited_by"),
    [
        (256, 32, 0, 64, ["threads", "registers"]),
        (1024, 32, 32768, 64, ["threads", "registers"]),
        (1024, 33, 0, 32, ["registers"]),
        (32, 16, 0, 32, ["blocks"]),
        (256, 255, 0, 8, ["registers"]),
        (128, 40, 0, 48, ["registers"]),
        (256, 32, 100 * 1024, 16, ["shared memory"]),
        (768, 32, 0, 48, ["threads", "registers"]),
    ],
)
def test_known_launches(block, registers, shared, warps, limited_by):
    found = occupancy(H200, (1000, 1, 1), (block, 1, 1), registers, shared)
    assert found is not None
    assert (found.warps_per_sm, found.limited_by) == (warps, limited_by)
    assert found.share == warps / 64


def test_waves_count_blocks_over_all_sms():
    found = occupancy(H200, (264, 2, 1), (1024, 1, 1), 32, 0)
    assert found is not None
    assert found.waves == 2.0


@pytest.mark.parametrize(
    ("device", "grid", "block"),
    [(CPU, (1, 1, 1), (32, 1, 1)), (H200, (0, 1, 1), (32, 1, 1)), (H200, (1, 1, 1), (4096, 1, 1)), (H200, (), ())],
)
def test_what_is_no_launch_has_none(device, grid, block):
    assert occupancy(device, grid, block, 32, 0) is None
