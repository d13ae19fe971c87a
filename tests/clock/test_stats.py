"""Intervals hold what they say they hold, on made-up and on recorded noise: no device, no clock."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise import KINDS, RECORDED, STEPS, Kind, by_block, independent

from harness.clock.stats import (
    NOTHING_KNOWN,
    clock_step,
    compare_speed,
    median_interval,
    median_of,
    ratio_interval,
    relative_half_width,
    student,
    widened,
    widened_ratio,
)

SHAPES = [(6, 1), (6, 20), (12, 4), (40, 20)]
"""Blocks and calls: a slow reference's, the fewest of a quick candidate, something between, the most."""
GRADINGS = 150


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_at_least_nine_in_ten_intervals_hold_the_true_median(kind: Kind, shape: tuple[int, int]) -> None:
    held = 0
    for seed in range(GRADINGS):
        samples, true = kind(np.random.default_rng(seed), *shape)
        low, high = median_interval(samples.tolist(), resamples=400, step=STEPS.get(kind, 0.0))
        held += low <= true <= high
    assert held >= 0.9 * GRADINGS


@pytest.mark.parametrize("count", [6, 10])
def test_stretches_of_the_recording_hold_the_median_of_all_of_it(count: int) -> None:
    true, starts = np.median(RECORDED), range(len(RECORDED) - count + 1)
    intervals = [median_interval(RECORDED[start : start + count].tolist(), resamples=400) for start in starts]
    assert sum(low <= true <= high for low, high in intervals) >= 0.9 * len(starts)


@pytest.mark.parametrize("shape", [*SHAPES, (4, 20)], ids=lambda shape: f"{shape[0]}x{shape[1]}")
@pytest.mark.parametrize("kind", [independent, by_block], ids=lambda kind: kind.__name__)
def test_at_least_nine_in_ten_ratio_intervals_hold_the_true_ratio(kind: Kind, shape: tuple[int, int]) -> None:
    held = 0
    for seed in range(GRADINGS):
        random = np.random.default_rng(seed)
        drift = np.linspace(1, 1.1, shape[0])[:, None]
        reference, candidate = (kind(random, *shape)[0] * drift for _ in range(2))
        low, high = ratio_interval((3 * reference).tolist(), candidate.tolist(), resamples=400)
        held += low <= 3 <= high
    assert held >= 0.9 * GRADINGS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_interval_holds_the_median_of_its_own_samples(kind: Kind) -> None:
    samples, _ = kind(np.random.default_rng(7), 6, 5)
    low, high = median_interval(samples.tolist())
    assert low <= np.median(samples) <= high


def test_a_drift_that_hits_both_sides_cancels_in_their_ratio() -> None:
    drift = np.linspace(1, 1.2, 10)[:, None]
    samples = np.random.default_rng(1).normal(100, 0.1, (2, 10, 20)) * drift
    alone = relative_half_width(median_interval(samples[0].tolist()))
    together = relative_half_width(ratio_interval(samples[0].tolist(), samples[1].tolist()))
    assert together < alone / 2


def test_a_step_in_the_middle_is_in_the_interval_with_both_its_levels() -> None:
    levels = np.where(np.arange(10) < 5, 100.0, 110.0)[:, None]
    low, high = median_interval((np.random.default_rng(2).normal(0, 0.1, (10, 20)) + levels).tolist())
    assert low < 100.5
    assert high > 109.5


def test_blocks_that_differ_widen_the_interval() -> None:
    together = np.random.default_rng(3).normal(100, 1, (10, 10))
    apart = together + 5 * (np.arange(10) % 2)[:, None]
    narrow, wide = (relative_half_width(median_interval(blocks.tolist())) for blocks in (together, apart))
    assert wide > 3 * narrow


def test_the_interval_narrows_with_samples() -> None:
    random = np.random.default_rng(4)
    few, many = (relative_half_width(median_interval(random.normal(100, 1, (n, 20)).tolist())) for n in (6, 40))
    assert many < few / 1.5


def test_constant_samples_have_an_interval_of_no_width_or_of_the_clocks_step() -> None:
    assert median_interval([[5.0] * 4] * 4) == (5.0, 5.0)
    assert median_interval([[5.0] * 4] * 4, step=0.5) == (4.75, 5.25)
    assert relative_half_width((5.0, 5.0)) == 0.0


def test_one_sample_says_nothing_of_its_error() -> None:
    assert median_interval([[5.0]]) == NOTHING_KNOWN
    assert ratio_interval([[5.0]], [[1.0, 2.0]]) == NOTHING_KNOWN
    assert math.isinf(relative_half_width(NOTHING_KNOWN))
    assert compare_speed(NOTHING_KNOWN) == "undecided"


def test_the_samples_of_one_block_alone_still_give_an_interval() -> None:
    low, high = median_interval([np.random.default_rng(5).normal(100, 1, 20).tolist()])
    assert 95 < low < 100 < high < 105


def test_no_time_is_below_nothing_and_nothing_is_divided_by_it() -> None:
    assert median_interval([[0.0, 0.0], [0.1, 3.0]])[0] == 0.0
    assert ratio_interval([[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.1]]) == NOTHING_KNOWN


def test_no_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_interval([[], []])


@given(
    blocks=st.lists(st.lists(st.integers(1, 50).map(float), min_size=1, max_size=6), min_size=2, max_size=8),
    seed=st.integers(0, 1000),
)
def test_medians_of_resamples_are_those_of_resamples_that_are_built(blocks: list[list[float]], seed: int) -> None:
    from harness.clock.stats import _drawn_medians, _draws, _units

    draws = _draws(len(blocks), 20, seed)
    drawn = [np.concatenate([blocks[k] for k, times in enumerate(row) for _ in range(times)]) for row in draws]
    assert _drawn_medians(_units(blocks), draws).tolist() == [float(np.median(samples)) for samples in drawn]


def test_the_interval_of_the_inverse_is_the_inverse_interval() -> None:
    random = np.random.default_rng(6)
    reference, candidate = random.normal(90, 1, (8, 10)).tolist(), random.normal(5, 0.1, (8, 10)).tolist()
    low, high = ratio_interval(reference, candidate)
    inverse_low, inverse_high = ratio_interval(candidate, reference)
    # The same but for the two middle samples of an even number, whose mean's inverse is not the mean of the inverses.
    assert (1 / inverse_high, 1 / inverse_low) == pytest.approx((low, high), rel=1e-3)


def test_the_same_samples_give_the_same_interval() -> None:
    samples = np.random.default_rng(8).normal(100, 1, (6, 6)).tolist()
    assert median_interval(samples) == median_interval(samples)
    assert ratio_interval(samples, samples) == ratio_interval(samples, samples)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (4, 2.776), (5, 2.571), (10, 2.228), (39, 2.023)])
def test_students_quantile_is_the_one_of_the_tables(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, rel=1e-3)


def test_steps_of_the_clock_are_seen_and_spikes_and_chance_are_not_taken_for_them() -> None:
    random = np.random.default_rng(9)
    assert clock_step(np.round(random.normal(160, 3, 200)) * 0.032) == pytest.approx(0.032)
    assert clock_step(random.normal(160, 3, 200)) == 0.0
    assert clock_step([5.0] * 99 + [5.4]) == 0.0
    assert clock_step([5.0] * 50 + [8.0] * 50) == 0.0


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((1.05, 1.2), "faster"),
        ((1.001, 1.2), "faster"),
        ((0.8, 0.95), "slower"),
        ((0.99, 1.015), "same"),
        ((1.005, 1.015), "same"),
        ((0.97, 1.01), "undecided"),
        ((0.5, 3.0), "undecided"),
        ((0.98, 1.02), "same"),
    ],
)
def test_the_interval_of_the_speedup_says_what_may_be_said(interval: tuple[float, float], words: str) -> None:
    assert compare_speed(interval) == words


def test_samples_that_come_in_steps_of_their_own_widen_nothing() -> None:
    made_up = [[10.0, 10.5] * 10] * 8
    even = [[10.25] * 20] * 8
    assert clock_step(made_up) == 0.5
    assert median_interval(made_up, step=0.0) == (10.0, 10.5)
    assert median_of([sample for block in made_up for sample in block]) == 10.25
    known = ratio_interval(even, even, steps=(0.5, 0.5))
    assert known == pytest.approx((math.exp(-0.5 / 10.25), math.exp(0.5 / 10.25)))
    assert ratio_interval(even, even) == pytest.approx((1.0, 1.0))


def test_how_much_is_the_same_can_be_set() -> None:
    assert compare_speed((0.96, 1.04), same_within=0.05) == "same"
    assert compare_speed((1.005, 1.015), same_within=0.001) == "faster"


def test_a_median_between_two_steps_of_the_clock_moves_with_their_shares() -> None:
    step = 0.032
    assert median_of([5.0] * 50 + [5.0 + step] * 50, step) == pytest.approx(5.0 + step / 2)
    mostly = median_of([5.0] * 75 + [5.0 + step] * 25, step)
    assert 5.0 - step / 2 < mostly < 5.0 + step / 2
    assert median_of([3.0, 1.0, 2.0]) == 2.0


def test_an_interval_grows_with_what_was_taken_off_it() -> None:
    low, high = widened((4.97, 5.04), 5.0, 0.04)
    assert (low, high) == pytest.approx((4.95, 5.0 + math.hypot(0.04, 0.04)))
    assert widened((4.9, 5.1), 5.0, 0.0) == pytest.approx((4.9, 5.1))
    assert widened((0.0, math.inf), 5.0, 0.1) == (0.0, math.inf)
    low, high = widened_ratio((1.9, 2.1), 0.1)
    assert low < 1.9 < 2.1 < high
    assert low * high == pytest.approx(1.9 * 2.1)
    assert widened_ratio((0.0, math.inf), 0.1) == (0.0, math.inf)
