"""Arithmetic over a workload's sizes, as problem.toml writes it: ``"3 * B * L * D * 4"``.

Only numbers, names, ``+ - * / // % **``, ``min``, ``max`` and ``ceil`` exist, and every intermediate result is
bounded, so an expression cannot run code and cannot run long.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Number = int | float

_MAX_LENGTH = 1000  # characters; far below what would make the parser recurse too deeply
_MAX_RESULT = 1e30  # no machine moves that many bytes; keeps integer powers cheap
_MAX_EXPONENT = 64

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: _power(a, b),
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max, "ceil": math.ceil}


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated; the message quotes the expression."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression. ``names`` are the sizes it needs."""

    source: str
    names: frozenset[str]

    @classmethod
    def parse(cls, source: str) -> Expression:
        """Check ``source`` and list its names; raises ExpressionError for anything but the arithmetic above."""
        body = _body(source)
        names: set[str] = set()
        _check(body, source, names)
        return cls(source=source, names=frozenset(names))

    def evaluate(self, sizes: Mapping[str, object]) -> float:
        """The value with names taken from ``sizes``; raises ExpressionError for a missing or non-numeric size, a
        division by zero, a result that is negative, not finite or beyond 1e30."""
        value = _evaluate(_body(self.source), self.source, sizes)
        if value < 0:
            raise ExpressionError(f"the expression {self.source!r} is negative ({value}); a count of work cannot be")
        return float(value)


def _body(source: str) -> ast.expr:
    if len(source) > _MAX_LENGTH:
        raise ExpressionError(f"the expression {source[:40]!r}... is longer than {_MAX_LENGTH} characters")
    try:
        with warnings.catch_warnings():  # "1if" and the like warn before they fail
            warnings.simplefilter("ignore")
            return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"the expression {source!r} is not arithmetic that can be read") from None


def _check(node: ast.expr, source: str, names: set[str]) -> None:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float()):
            return
        case ast.Name(id=name):
            if name in _FUNCTIONS:
                raise ExpressionError(f"the expression {source!r} uses {name} without calling it")
            names.add(name)
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, source, names)
            _check(right, source, names)
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check(operand, source, names)
            return
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _FUNCTIONS:
            if name == "ceil" and len(args) != 1:
                raise ExpressionError(f"the expression {source!r} gives ceil {len(args)} values; it takes one")
            if name != "ceil" and len(args) < 2:
                raise ExpressionError(f"the expression {source!r} gives {name} one value; it takes two or more")
            for arg in args:
                _check(arg, source, names)
            return
        case _:
            pass
    what = ast.unparse(node)
    raise ExpressionError(
        f"the expression {source!r} has {what[:60]!r}, which is not allowed; "
        "write numbers, sizes, + - * / // % **, min, max and ceil"
    )


def _evaluate(node: ast.expr, source: str, sizes: Mapping[str, object]) -> Number:
    try:
        value = _value(node, source, sizes)
    except ZeroDivisionError:
        raise ExpressionError(f"the expression {source!r} divides by zero") from None
    except (OverflowError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"the expression {source!r} has no finite value") from None
    if isinstance(value, complex) or not abs(value) <= _MAX_RESULT:
        raise ExpressionError(f"the expression {source!r} passes 1e30 or has no real value")
    return value


def _value(node: ast.expr, source: str, sizes: Mapping[str, object]) -> Number:
    match node:
        case ast.Constant(value=(int() | float()) as value):
            return value
        case ast.Name(id=name):
            if name not in sizes:
                known = ", ".join(sorted(sizes)) or "none"
                raise ExpressionError(f"the expression {source!r} names {name!r}, but the sizes are: {known}")
            size = sizes[name]
            if isinstance(size, bool) or not isinstance(size, int | float):
                raise ExpressionError(f"the expression {source!r} needs {name!r} as a number, but it is {size!r}")
            return size
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, source, sizes), _evaluate(right, source, sizes))
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate(operand, source, sizes)
            return -value if isinstance(op, ast.USub) else value
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_evaluate(arg, source, sizes) for arg in args))
        case _:  # parse() let nothing else through
            raise ExpressionError(f"the expression {source!r} is not arithmetic that can be read")


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > _MAX_EXPONENT:
        raise OverflowError
    result: Number = base**exponent
    return result
