"""Seeds of a grading: one number, and no secret before its time."""

from __future__ import annotations

import pytest

from harness.seeds import Seeds


def test_no_secret_seed_before_the_submission_is_constructed() -> None:
    seeds = Seeds()
    seeds.parameters()
    with pytest.raises(RuntimeError):
        seeds.of("inputs", 0)
    assert seeds.number is None


def test_a_number_repeats_a_grading() -> None:
    first = Seeds()
    first.draw()
    assert first.number is not None
    again = Seeds(first.number)
    again.draw()
    assert again.parameters() == first.parameters()
    assert [again.of("inputs", i) for i in range(5)] == [first.of("inputs", i) for i in range(5)]
    assert again.number == first.number


def test_seeds_differ_by_purpose_index_and_grading() -> None:
    one, two = Seeds(), Seeds()
    one.draw()
    two.draw()
    found = {seeds.of(purpose, index) for seeds in (one, two) for purpose in ("a", "b") for index in range(50)}
    assert len(found) == 200
    assert all(0 <= seed < 1 << 63 for seed in found)


def test_parameters_do_not_depend_on_the_secret_half() -> None:
    assert Seeds((5 << 64) | 1).parameters() == Seeds((5 << 64) | 2).parameters()
