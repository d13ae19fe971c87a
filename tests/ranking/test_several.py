"""One score from several timings: what it must be whatever the samples are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timings import timing

from harness.clock.several import blocks, ranked
from harness.clock.stats import median_interval
from harness.load.spec import Mean
from harness.report import Timing

TIMES = st.lists(st.floats(1.0, 1e5), min_size=2, max_size=6)


@given(TIMES, st.sampled_from(["geometric_mean", "mean"]), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_score_is_the_mean_and_lies_in_its_interval(times: list[float], by: Mean, seed: int) -> None:
    timings = [timing(us, 3 * us, seed=seed + number) for number, us in enumerate(times)]
    score = ranked(timings, by)
    medians = [each.candidate.median_us for each in timings]
    wanted = math.exp(np.log(medians).mean()) if by == "geometric_mean" else float(np.mean(medians))
    assert score.time_us == pytest.approx(wanted)
    assert score.time_ci95_us[0] <= score.time_us <= score.time_ci95_us[1]
    assert score.speedup_ci95[0] <= score.speedup <= score.speedup_ci95[1]
    assert score == ranked(timings, by)


def test_equal_workloads_are_known_better_together_than_one_alone() -> None:
    timings = [timing(100.0, 200.0, seed=seed) for seed in range(9)]
    low, high = ranked(timings, "geometric_mean").time_ci95_us
    alone = np.median([each.candidate.ci95_us[1] - each.candidate.ci95_us[0] for each in timings])
    assert high - low < alone / 2


def test_what_is_not_known_of_the_clock_is_not_averaged_away() -> None:
    # 2 us of 100 that nobody knows: the same in all nine.
    timings = [timing(100.0, 200.0, seed=seed, clock_us=2.0) for seed in range(9)]
    low, high = ranked(timings, "geometric_mean").time_ci95_us
    assert low <= 98.1
    assert high >= 101.9


def test_a_slow_workload_outweighs_a_quick_one_in_a_mean_and_not_in_a_geometric_one() -> None:
    timings = [timing(1.0, 10.0, seed=1), timing(1000.0, 1000.0, seed=2)]
    assert ranked(timings, "geometric_mean").speedup == pytest.approx(math.sqrt(10), rel=0.05)
    assert ranked(timings, "mean").speedup == pytest.approx(1.0, rel=0.05)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        timings = [timing(us, 2 * us, seed=1000 * seed + number) for number, us in enumerate((10.0, 50.0, 400.0))]
        low, high = ranked(timings, "geometric_mean").speedup_ci95
        held += low <= 2.0 <= high
    assert held >= 180


@pytest.mark.parametrize("by", ["geometric_mean", "mean"])
def test_intervals_are_around_the_mean_of_several_processes(by: Any) -> None:
    """As stage.py moves what is drawn around the median of all samples."""
    factor = 1.1
    pooled = [timing(us, 2 * us, seed=seed) for seed, us in enumerate((5.0, 7.0, 9.0))]

    def moved(one: Timing) -> Timing:
        low, high = one.candidate.ci95_us
        median_us = one.candidate.median_us * factor
        changes = {
            "median_us": median_us,
            "ci95_us": (low * factor, high * factor),
            "process_medians_us": [median_us] * 4,
        }
        ratio = tuple(end / factor for end in one.speedup_ci95)
        candidate = one.candidate.model_copy(update=changes)
        update = {"candidate": candidate, "speedup": one.speedup / factor, "speedup_ci95": ratio}
        return one.model_copy(update=update)

    found, before = ranked([moved(one) for one in pooled], by), ranked(pooled, by)
    assert found.time_us == pytest.approx(factor * before.time_us)
    assert found.time_ci95_us == pytest.approx([factor * end for end in before.time_ci95_us])
    assert found.speedup_ci95 == pytest.approx([end / factor for end in before.speedup_ci95])


def test_one_sample_says_nothing_of_its_own_error() -> None:
    single = timing(5.0, 10.0, seed=0, blocks=1, calls=1)
    assert ranked([single, timing(5.0, 10.0, seed=1)], "geometric_mean").time_ci95_us == (0.0, math.inf)


def test_the_fraction_of_the_floor_needs_every_floor() -> None:
    floored = [timing(us, 2 * us, seed=1).model_copy(update={"floor_us": us / 2}) for us in (10.0, 1000.0)]
    assert ranked(floored, "geometric_mean").fraction_of_floor == pytest.approx(0.5, rel=0.05)
    assert ranked([floored[0], timing(5.0, 10.0, seed=2)], "geometric_mean").fraction_of_floor is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
@settings(max_examples=20, deadline=None)
def test_blocks_are_what_was_measured(sizes: list[int]) -> None:
    samples = [float(number) for number in range(1, 1 + sum(sizes))]
    measured: Any = timing(5.0, 10.0, seed=0).candidate.model_copy(update={"samples_us": samples, "block_sizes": sizes})
    assert [len(block) for block in blocks(measured)] == sizes
    assert [sample for block in blocks(measured) for sample in block] == samples
    assert median_interval(blocks(measured))
