"""pass@k, fast_p and geometric means against what a person can compute, and against simulation."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.batch.statistics import fast_p, geometric_mean, geometric_mean_interval, log_deviation, pass_at_k


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(5, 2, 1) == pytest.approx(0.4)
    assert pass_at_k(5, 2, 2) == pytest.approx(1 - 3 / 10)  # of 10 pairs, 3 hold none of the two
    assert pass_at_k(5, 0, 3) == 0
    assert pass_at_k(5, 3, 3) == 1  # three of five always hold one of the three right
    assert pass_at_k(2, 1, 3) is None


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_all_draws_that_hold_a_right_one(samples: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, samples))
    k = data.draw(st.integers(1, samples))
    draws = list(itertools.combinations(range(samples), k))
    share = sum(any(each < right for each in draw) for draw in draws) / len(draws)
    assert pass_at_k(samples, right, k) == pytest.approx(share)


def test_pass_at_k_of_thousands_is_no_overflow() -> None:
    assert pass_at_k(10_000, 3, 5_000) == pytest.approx(1 - 0.5**3, abs=1e-3)


@pytest.mark.parametrize(("samples", "right", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_pass_at_k_of_nonsense_is_refused(samples: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="no pass@"):
        pass_at_k(samples, right, k)


def test_fast_p_counts_those_strictly_faster_among_all() -> None:
    speedups = [None, 0.5, 1.0, 1.5, 3.0]
    assert [fast_p(speedups, p) for p in (0, 0.5, 1, 2, 3)] == [0.8, 0.6, 0.4, 0.2, 0.0]
    assert fast_p([], 1) is None


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), min_size=1), st.floats(0, 50), st.floats(0, 50))
def test_fast_p_never_rises_with_p(speedups: list[float | None], p: float, more: float) -> None:
    slower, faster = fast_p(speedups, p), fast_p(speedups, p + more)
    assert slower is not None
    assert faster is not None
    assert 0 <= faster <= slower <= 1


def test_geometric_mean_by_hand() -> None:
    assert geometric_mean([1, 4]) == pytest.approx(2)
    assert geometric_mean([0.5, 2, 8]) == pytest.approx(2)
    assert geometric_mean([3, 0]) == 0
    assert geometric_mean([]) is None
    with pytest.raises(ValueError, match="below 0"):
        geometric_mean([-1.0, 2.0])


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(0.01, 100), min_size=1, max_size=5), min_size=2, max_size=6), st.floats(0.1, 10))
def test_the_interval_holds_the_mean_and_scales_with_the_values(groups: list[list[float]], factor: float) -> None:
    mean = geometric_mean([value for group in groups for value in group])
    assert mean is not None
    low, high = geometric_mean_interval(groups)
    assert low <= mean * (1 + 1e-9)
    assert high >= mean * (1 - 1e-9)
    scaled = geometric_mean_interval([[factor * value for value in group] for group in groups])
    assert scaled[0] == pytest.approx(factor * low, rel=1e-6)
    assert scaled[1] == pytest.approx(factor * high, rel=1e-6)


@pytest.mark.parametrize("groups", [5, 12])
def test_the_interval_holds_the_truth_as_often_as_it_says(groups: int) -> None:
    """Problems that differ by a factor, submissions to one problem alike: 95 % is what is claimed."""
    noise = random.Random(3)
    held = 0
    for _ in range(200):
        sample = []
        for _ in range(groups):
            problem = noise.gauss(math.log(2), 0.5)
            sample.append([math.exp(noise.gauss(problem, 0.1)) for _ in range(4)])
        low, high = geometric_mean_interval(sample, resamples=400)
        held += low <= 2 <= high
    assert 0.90 * 200 <= held <= 199


def test_of_one_value_nothing_is_known() -> None:
    assert geometric_mean_interval([[2.0]]) == (0.0, math.inf)
    assert geometric_mean_interval([]) == (0.0, math.inf)
    low, high = geometric_mean_interval([[2.0, 2.5, 3.0, 2.2]])
    assert 1.5 < low < 2.4 < high < 4


def test_a_group_weighs_as_a_whole() -> None:
    """Twenty submissions to one of two problems say no more of other problems than one does."""
    low, high = geometric_mean_interval([[8.0] * 20, [1.0]])
    assert low < 1 < 8 < high


def test_what_measuring_left_open_widens_the_interval() -> None:
    sample = [[2.9], [3.1], [3.0]]
    exact = geometric_mean_interval(sample)
    assert geometric_mean_interval(sample, [[0.0], [0.0], [0.0]]) == exact
    assert exact[0] > 2.5
    unsure = log_deviation((0.0101, 92.0))
    low, high = geometric_mean_interval(sample, [[unsure]] * 3)
    assert low < 1 < 3 < 9 < high
    assert geometric_mean_interval(sample, [[0.0], [0.0], [math.inf]]) == (0.0, math.inf)


def test_a_deviation_is_a_quarter_of_the_interval_or_unknown() -> None:
    assert log_deviation((1.0, math.exp(2 * 1.959964))) == pytest.approx(1.0)
    assert log_deviation((2.0, 2.0)) == 0
    assert log_deviation((0.0, 3.0)) == log_deviation((1.0, math.inf)) == math.inf


def test_many_problems_measured_badly_hold_the_truth_as_often_as_it_says() -> None:
    noise = random.Random(5)
    held = 0
    for _ in range(200):
        sample = [[math.exp(noise.gauss(math.log(2) + noise.gauss(0, 0.2), 0.6))] for _ in range(8)]
        low, high = geometric_mean_interval(sample, [[0.6]] * 8, resamples=400)
        held += low <= 2 <= high
    assert held >= 0.93 * 200
