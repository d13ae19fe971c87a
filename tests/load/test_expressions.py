"""Expressions over sizes: arithmetic, and nothing else, whatever text comes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.load.expressions import Expression, ExpressionError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 * B * L * 4", 168.0),
        ("B ** 2 // 2 + L % 2", 3.0),
        ("ceil(L / B) * max(B, L, 1) - min(1, B)", 27.0),
        ("-(-L)", 7.0),
        ("1e3 / B", 500.0),
    ],
)
def test_expressions_are_arithmetic(text: str, value: float) -> None:
    assert Expression.parse(text).evaluate({"B": 2, "L": 7}) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B L",
        "B if L else 1",
        "[B]",
        "True",
        "'x'",
        "f(B)",
        "min(B)",
        "min",
        "B @ L",
        "x := 1",
        "1j",
        "min(*B)",
        "1\0",
    ],
)
def test_expressions_are_nothing_else(text: str) -> None:
    with pytest.raises(ExpressionError, match="the expression"):
        Expression.parse(text)


@pytest.mark.parametrize("text", ["1 / (B - 2)", "9 ** 9 ** 9", "(-8) ** 0.5", "1e300 * 1e300", "B - L", "B * name"])
def test_expressions_without_a_usable_value(text: str) -> None:
    with pytest.raises(ExpressionError, match="the expression"):
        Expression.parse(text).evaluate({"B": 2, "L": 7, "name": "x"})


@settings(deadline=None)
@given(st.text(alphabet="BL0123456789.+-*/%()<>,_ maxinceil", max_size=40))
def test_an_expression_has_a_value_or_an_expression_error(text: str) -> None:
    try:
        value = Expression.parse(text).evaluate({"B": 2, "L": 7})
    except ExpressionError:
        return
    assert 0 <= value <= 1e30
