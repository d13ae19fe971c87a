"""Nested values, taken apart and put together."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.wire.tree import MAX_DEPTH, TreeError, describe, difference, paths, put_together, scalars, take_apart

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.complex_numbers(allow_nan=False)
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_plain_values_come_back_as_they_were_through_json(value: Any) -> None:
    skeleton, leaves = take_apart(value)
    back = put_together(json.loads(json.dumps(skeleton)), leaves)
    assert back == value
    assert type(back) is type(value)


def test_tensors_keep_their_places() -> None:
    a, b = torch.rand(2), torch.rand(3)
    value = (a, [1, None, b], {"m": a, 3: torch.float16})
    skeleton, leaves = take_apart(value)
    assert [id(leaf) for leaf in leaves] == [id(a), id(b), id(a)]
    assert paths(skeleton, "x") == {0: "x[0]", 1: "x[1][2]", 2: "x[2]['m']"}
    back = put_together(skeleton, leaves)
    assert back[1][2] is b
    assert back[2][3] is torch.float16


def test_results_of_torch_operators_are_tuples() -> None:
    skeleton, leaves = take_apart(torch.max(torch.rand(3, 4), dim=1))
    assert describe(skeleton) == "a tuple of 2"
    assert len(leaves) == 2


class Sneaky(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise AssertionError("entered")


class SneakyDict(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise AssertionError("entered")


@pytest.mark.parametrize("value", [Sneaky([1]), SneakyDict(a=1), {1.5: 2}, {1, 2}, iter([1]), object()])
def test_what_could_compute_on_access_is_not_entered(value: object) -> None:
    skeleton, _ = take_apart(value)
    assert list(skeleton) == ["other"]
    with pytest.raises(TreeError):
        put_together(skeleton, [])


def test_too_deep_and_too_large_are_refused() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(TreeError):
        take_apart(deep)
    with pytest.raises(TreeError):
        take_apart([0] * 20_000)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TreeError):
        take_apart(loop)


@pytest.mark.parametrize(
    ("wanted", "got", "words"),
    [
        ((1, 2), [1, 2], "a list of 2"),
        ([1, 2], [1], "has 1 items"),
        ({"a": 1}, {"b": 1}, "the keys"),
        (torch.rand(1), None, "None"),
        (1, 1.0, "a Python float"),
        ((torch.rand(1), [torch.rand(1)]), (torch.rand(1), [None]), "x[1][0] is None"),
    ],
)
def test_differences_name_the_place(wanted: object, got: object, words: str) -> None:
    found = difference(take_apart(wanted)[0], take_apart(got)[0], "x")
    assert found is not None
    assert words in found


@given(st.recursive(st.none() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_any_json_is_told_from_a_skeleton(got: Any) -> None:
    wanted, _ = take_apart((1, [torch.rand(1)], {"k": None}))
    assert difference(wanted, got, "x") is not None


def test_numbers_are_found_by_path() -> None:
    assert scalars(take_apart((1, {"a": [2.5, "s"]}, torch.rand(1)))[0], "y") == {
        "y[0]": 1,
        "y[1]['a'][0]": 2.5,
        "y[1]['a'][1]": "s",
    }
