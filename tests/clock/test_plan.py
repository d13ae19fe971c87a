"""The course of a timing stage, on made-up noise: no device, no clock."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from harness.clock.plan import Goal, Plan, Side

QUICK: dict[Side, float] = {"candidate": 0.001, "reference": 0.001}


def normal(seed: int, center: float, spread: float) -> Iterator[list[float]]:
    """Blocks of independent samples without end."""
    random = np.random.default_rng(seed)
    while True:
        yield random.normal(center, spread, 20).tolist()


def around(seed: int, levels: list[float], spread: float = 0.05) -> Iterator[list[float]]:
    """Blocks about one level after another, again and again."""
    random = np.random.default_rng(seed)
    for level in itertools.cycle(levels):
        yield random.normal(level, spread, 20).tolist()


def played(
    goal: Goal,
    call_s: dict[Side, float],
    candidate: Iterator[list[float]],
    center: float = 90.0,
    step_us: float = 0.0,
    unsure_us: float = 0.0,
) -> Plan:
    """A plan fed with samples whose calls take `call_s` seconds, until it is done."""
    unsure: dict[Side, float] = {"candidate": unsure_us, "reference": unsure_us}
    plan, elapsed = Plan(goal, call_s, step_us={"candidate": step_us}, unsure_us=unsure), 0.0
    feed: dict[Side, Iterator[list[float]]] = {"candidate": candidate, "reference": normal(1, center, 0.02)}
    rounds = plan.rounds()
    while not plan.done(elapsed):
        for side in next(rounds):
            block = next(feed[side])[: plan.calls(side)]
            plan.blocks[side].append(block)
            elapsed += len(block) * call_s[side]
    return plan


def test_steps_that_only_the_candidate_shows_are_noise_to_the_plan() -> None:
    plan = played(Goal(max_blocks=8), QUICK, itertools.repeat([5.0, 5.5] * 10), step_us=0.032)
    assert "candidate's interval is within 5" in plan.shortfall()


@pytest.mark.parametrize(
    "candidate",
    [
        pytest.param(normal(6, 5, 0.005), id="steady"),
        pytest.param(itertools.repeat([5.0] * 20), id="constant"),
        pytest.param(itertools.repeat([4.992, 5.024] * 10), id="steps of the clock"),
        pytest.param(itertools.repeat([5.0] * 19 + [80.0]), id="spikes"),
    ],
)
def test_what_is_sure_ends_at_once(candidate: Iterator[list[float]]) -> None:
    plan = played(Goal(), QUICK, candidate, step_us=0.032)
    assert "within 0.3 %" in plan.stopped_because
    assert len(plan.blocks["candidate"]) == Goal().min_blocks
    assert plan.shortfall() == ""


@pytest.mark.parametrize(
    "candidate",
    [
        pytest.param(normal(8, 100, 40), id="wild"),
        pytest.param(around(9, [100.0, 100.0, 100.0, 110.0, 110.0, 110.0]), id="steps"),
        pytest.param(around(10, np.linspace(100, 120, 40).tolist()), id="drift"),
        pytest.param(around(11, [100.0, 108.0]), id="two modes"),
    ],
)
def test_what_stays_unsure_goes_on_to_the_end_of_the_budget_and_says_so(candidate: Iterator[list[float]]) -> None:
    plan = played(Goal(budget_s=1), QUICK, candidate, center=100)
    assert plan.stopped_because == "the budget of 1 s was spent"
    assert not plan.short
    assert plan.shortfall().startswith("The candidate's interval is within ")
    assert "0.3 % was asked for" in plan.shortfall()


def test_moderate_noise_takes_more_blocks_than_the_fewest_and_then_ends() -> None:
    plan = played(Goal(), QUICK, normal(12, 100, 1.8))
    assert "within" in plan.stopped_because
    assert Goal().min_blocks < len(plan.blocks["candidate"]) < Goal().max_blocks


def test_where_the_clock_is_unsure_of_more_the_fewest_blocks_do_and_what_is_missing_is_said() -> None:
    plan = played(Goal(), QUICK, normal(12, 5, 0.15), unsure_us=0.1)
    assert "what the clock itself is unsure of" in plan.stopped_because
    assert len(plan.blocks["candidate"]) == Goal().min_blocks
    assert plan.shortfall().startswith("The candidate's interval is within ")
    sure = played(Goal(), QUICK, normal(12, 5, 0.15), unsure_us=0.001)
    assert len(sure.blocks["candidate"]) > Goal().min_blocks


def test_a_narrower_goal_takes_more_blocks() -> None:
    wide, narrow = (
        played(Goal(relative_half_width=width, max_blocks=200, budget_s=60), QUICK, normal(13, 100, 1))
        for width in (0.01, 0.001)
    )
    assert len(narrow.blocks["candidate"]) > 2 * len(wide.blocks["candidate"])


def test_the_most_blocks_end_it_too() -> None:
    plan = played(Goal(max_blocks=10, budget_s=60), QUICK, normal(14, 100, 40))
    assert plan.stopped_because == "10 blocks of each side were measured"
    assert plan.shortfall()


def test_a_pair_that_would_pass_the_budget_is_not_begun() -> None:
    plan = Plan(Goal(budget_s=3), {"candidate": 0.1, "reference": 0.14})
    for side in ("candidate", "reference"):
        plan.blocks[side] = [[sample] for sample in range(1, 8)]
    assert not plan.done(2.7)
    assert plan.done(2.8)


def test_a_slow_reference_gets_few_calls_and_a_quick_candidate_many() -> None:
    plan = Plan(Goal(), {"candidate": 0.001, "reference": 0.14})
    assert plan.calls("reference") == 1
    assert plan.calls("candidate") == Goal().max_block_calls


def test_most_of_the_time_goes_into_the_submission_s_calls() -> None:
    plan = Plan(Goal(block_s=0.05, baseline_share=0.5), {"candidate": 0.005, "reference": 0.005, "compiled": 0.005})
    assert [plan.calls(side) for side in plan.call_s] == [10, 5, 5]


def test_calls_far_beyond_the_budget_end_after_one_block_and_that_is_said() -> None:
    plan = played(Goal(budget_s=1), {"candidate": 10.0, "reference": 10.0}, normal(15, 5, 0.01))
    assert plan.stopped_because == "4 times the budget of 1 s was spent after 1 block of each side"
    assert plan.short
    assert "(candidate 1, reference 1)" in plan.shortfall()
    assert "interval has no ends" in plan.shortfall()


def test_sides_alternate_so_that_drift_hits_both() -> None:
    for sides in (QUICK, {**QUICK, "compiled": 0.001}):
        order = list(itertools.chain(*itertools.islice(Plan(Goal(), sides).rounds(), 4)))
        positions = [sum(index for index, each in enumerate(order) if each == side) for side in sides]
        assert len(set(positions)) == 1


def test_time_is_kept_for_what_comes_after_the_blocks() -> None:
    plan = Plan(Goal(budget_s=3, min_blocks=1), QUICK, reserve_s=1)
    for side in QUICK:
        plan.blocks[side] = [[1.0, 9.0, 5.0]]
    assert not plan.done(1.9)
    assert plan.done(1.999)


def test_an_unsteady_block_counts_for_nothing_and_is_measured_again() -> None:
    plan = Plan(Goal(), QUICK)
    plan.blocks["candidate"] += [[5.0, 5.0], [9.0, 9.0]]
    assert plan.replace_last("candidate", "hot")
    assert plan.blocks["candidate"] == [[5.0, 5.0]]
    assert plan.dropped == {"candidate": [[9.0, 9.0]], "reference": []}
    assert plan.unsteady == ["hot"]
    assert not plan.unstable


def test_a_device_that_is_never_steady_ends_it_also_before_the_fewest_blocks() -> None:
    plan = Plan(Goal(max_unsteady=2), QUICK)
    again = []
    for _ in range(3):
        plan.blocks["reference"].append([5.0])
        again.append(plan.replace_last("reference", "hot"))
    assert again == [True, True, False]
    assert plan.unstable
    assert plan.done(0.0)
    assert plan.stopped_because == "the device was not steady in 3 blocks"
    assert plan.shortfall()


@pytest.mark.parametrize(
    "wrong", [{"min_blocks": 0}, {"max_blocks": 2}, {"budget_s": 0}, {"relative_half_width": float("nan")}]
)
def test_a_goal_that_cant_be_met_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no such goal"):
        Goal(**wrong)  # type: ignore[arg-type]
