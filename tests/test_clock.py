"""Statistics and the plan of a timing stage, on made-up noise: no device, no clock."""

from __future__ import annotations

import itertools
import random

import pytest

from harness.clock.plan import Goal, Plan, Side
from harness.clock.stats import median_interval, ratio_interval, relative_half_width


def noisy(seed: int, blocks: int, size: int, center: float = 100.0, spread: float = 1.0) -> list[list[float]]:
    generator = random.Random(seed)
    return [[generator.gauss(center, spread) for _ in range(size)] for _ in range(blocks)]


def test_constant_samples_have_an_interval_of_no_width() -> None:
    assert median_interval([[5.0] * 4] * 4) == (5.0, 5.0)
    assert relative_half_width((5.0, 5.0)) == 0.0


def test_the_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        low, high = median_interval(noisy(seed, 10, 10), resamples=300)
        covered += low <= 100.0 <= high
    assert 178 <= covered <= 200


def test_the_interval_narrows_with_samples() -> None:
    few, many = median_interval(noisy(1, 5, 5)), median_interval(noisy(1, 40, 20))
    assert many[1] - many[0] < few[1] - few[0]


def test_blocks_that_differ_widen_the_interval() -> None:
    together = noisy(2, 10, 10)
    apart = [[sample + 5 * (index % 2) for sample in block] for index, block in enumerate(together)]
    assert relative_half_width(median_interval(apart)) > 3 * relative_half_width(median_interval(together))


def test_a_ratio_covers_the_true_one() -> None:
    low, high = ratio_interval(noisy(3, 10, 10, 300), noisy(4, 10, 10, 100))
    assert low < 3.0 < high
    assert high - low < 0.1


def test_the_same_samples_give_the_same_interval() -> None:
    assert median_interval(noisy(5, 6, 6)) == median_interval(noisy(5, 6, 6))


def test_no_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_interval([[], []])


def played(goal: Goal, call_s: dict[Side, float], sample: dict[Side, list[list[float]]]) -> Plan:
    """A plan fed with samples whose calls take `call_s` seconds, until it is done."""
    plan, elapsed, turns = Plan(goal, call_s), 0.0, Plan(goal, call_s).turns()
    feed = {side: itertools.cycle(blocks) for side, blocks in sample.items()}
    while not plan.done(elapsed):
        for side in (next(turns), next(turns)):
            block = next(feed[side])[: plan.calls(side)]
            plan.blocks[side].append(block)
            elapsed += len(block) * call_s[side]
    return plan


STEADY: dict[Side, list[list[float]]] = {"candidate": noisy(6, 50, 20, 5, 0.01), "reference": noisy(7, 50, 20, 90, 0.1)}


def test_steady_samples_end_early() -> None:
    plan = played(Goal(), {"candidate": 0.001, "reference": 0.001}, STEADY)
    assert "within" in plan.stopped_because
    assert len(plan.blocks["candidate"]) == Goal().min_blocks


def test_noise_ends_with_the_budget_and_says_so() -> None:
    wild: dict[Side, list[list[float]]] = {side: noisy(8, 50, 20, 100, 40) for side in ("candidate", "reference")}
    plan = played(Goal(), {"candidate": 0.01, "reference": 0.01}, wild)
    assert "budget" in plan.stopped_because


def test_a_slow_reference_gets_few_calls_and_a_quick_candidate_many() -> None:
    plan = Plan(Goal(), {"candidate": 0.001, "reference": 0.14})
    assert plan.calls("reference") == 1
    assert plan.calls("candidate") == Goal().max_block_calls


def test_calls_far_beyond_the_budget_end_after_one_block() -> None:
    plan = played(Goal(budget_s=1), {"candidate": 10.0, "reference": 10.0}, STEADY)
    assert len(plan.blocks["candidate"]) == 1
    assert "four times the budget" in plan.stopped_because


def test_sides_alternate_so_that_drift_hits_both() -> None:
    order = list(itertools.islice(Plan(Goal(), {"candidate": 1, "reference": 1}).turns(), 8))
    positions = {
        side: [index for index, each in enumerate(order) if each == side] for side in ("candidate", "reference")
    }
    assert sum(positions["candidate"]) == sum(positions["reference"])
