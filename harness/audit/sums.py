"""The least accurate honest way to take a product: one term after the other, each partial sum rounded.

    s_1, s_2, ... s_K    partial sums of one element; rounding each costs u |s_k| in the root mean square
    result               off by u sqrt(s_1^2 + ... + s_K^2), where the K roundings have nothing to do with each other

A tree of additions rounds no more often, and mostly smaller sums. Orders that don't depend on the data are allowed for
by the largest of three, for each element:

    as they stand    K / C (P_1^2 + ... + P_C^2), with P_c the sum up to the end of the c-th of C chunks
    by turns         K (E^2 + O^2) / 6, with E and O the sums of every second term: signs may alternate
    at random        K (S^2 / 3 + Q / 6), with S the sum of all terms and Q that of their squares: the mean over all
                     orders, since E s_k^2 is (k/K)^2 S^2 + k (1 - k/K) Q/K, or a little less

3 u^2 Q more for scaled operands, and products that are rounded before they are added; K u^2 c^2 where a sum begins with
another term c (addmm).

Roundings do have to do with each other where many terms lose the same part of a step, as equal ones do. So the sum is
really taken one by one for some elements, from both ends, and where it errs by more, the whole grows by that factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from harness.audit.formats import MANTISSA
from harness.audit.wide import NotWide

JUDGED = {"fp32", "fp64"}
"""Precisions for which it is done: a sum in a narrower one may go wrong by any amount and be honest."""
EXACT = frozenset(
    {
        "abs",
        "add",
        "amax",
        "amin",
        "arange",
        "cat",
        "clamp",
        "clamp_max",
        "clamp_min",
        "clone",
        "constant_pad_nd",
        "copy",
        "div",
        "empty",
        "empty_like",
        "empty_strided",
        "eq",
        "fill",
        "flip",
        "full",
        "full_like",
        "gather",
        "ge",
        "gt",
        "hardtanh",
        "index_select",
        "le",
        "leaky_relu",
        "lift_fresh",
        "logical_not",
        "lt",
        "masked_fill",
        "maximum",
        "minimum",
        "mul",
        "ne",
        "neg",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_zeros",
        "ones",
        "ones_like",
        "relu",
        "repeat",
        "roll",
        "rsub",
        "scalar_tensor",
        "stack",
        "sub",
        "threshold",
        "tril",
        "triu",
        "where",
        "zero",
        "zeros",
        "zeros_like",
        "_reshape_alias",
        "_to_copy",
        "_unsafe_view",
    }
)
"""Operators beside products that err by half a step at most, or not at all, however they are computed. A sum, a norm,
an exponential function has honest ways of its own to be inaccurate."""
PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "linear", "mv", "addmv", "dot"})
_CHUNKS = 16
_ROUNDING = 0.42
"""Root mean square of a relative rounding error over half a step at 1: sqrt((1 - 1/4) / (6 ln 2)), for significands as
they are spread in numbers of all sizes."""
_PAIRS, _TERMS = 64, 1 << 22
"""Elements for which the sum is really taken, and terms in all of them."""


class PlainSums:
    """Adds random errors of that size to each product. `after` is for WideMode."""

    def __init__(self, precision: str, *, keep: bool) -> None:
        """`keep`: use the deviations of the first run again, for a reference with a single product."""
        self._precision, self._keep = precision, keep
        self._kept: torch.Tensor | None = None
        self._generator: torch.Generator | None = None

    def begin(self, seed: int, device: torch.device) -> None:
        """A run with errors of its own follows."""
        self._generator = torch.Generator(device).manual_seed(seed)

    @staticmethod
    def known_for(operators: set[str]) -> bool:
        """Whether this is the least accurate honest way for a reference of these operators."""
        return all(name in PRODUCTS or name.rstrip("_") in EXACT for name in operators)

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """The result of an operator as a plain sum would have it."""
        if name not in PRODUCTS:
            return result
        if result.is_complex():
            raise NotWide("its products are complex")
        size = self._kept
        if size is None:
            size = deviation(name, args, kwargs, self._precision)
            self._kept = size if self._keep else None
        drawn = torch.randn(result.shape, generator=self._generator, device=result.device, dtype=result.dtype)
        return result + drawn.mul_(size)


def deviation(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], precision: str) -> torch.Tensor:
    """Standard deviation of each element's error; float64, of the form of the product's result."""
    a, b, start, scale, form = _factors(name, args, kwargs)
    terms = a.shape[-1]
    chunks = min(_CHUNKS, max(1, terms))
    total = squares = torch.zeros((), dtype=a.dtype, device=a.device)
    for x, y in zip(a.tensor_split(chunks, -1), b.tensor_split(chunks, -2), strict=True):
        total = total + x @ y
        squares = squares + total.square()
    rest, even = a.square() @ b.square(), a[..., ::2] @ b[..., ::2, :]
    variance = torch.maximum(squares.div_(chunks), total.square() / 3 + rest / 6)
    variance = torch.maximum(variance, (even.square() + (total - even).square()) / 6).mul_(terms)
    unit = _ROUNDING * 2.0 ** (-MANTISSA[precision] - 1)
    size = variance.add_(rest, alpha=3.0).sqrt_().mul_(unit)
    size = form(size.mul_(_growth(a, b, size, precision))) * abs(scale)
    return size if start is None else (size.square() + terms * (unit * start).square()).sqrt()


def _growth(a: torch.Tensor, b: torch.Tensor, size: torch.Tensor, precision: str) -> float:
    """By what factor real sums, one term after the other, are worse than `size` says; at least 1."""
    terms = a.shape[-1]
    if not size.numel() or not terms:
        return 1.0
    if precision != "fp32":
        return math.sqrt(terms)  # the most that errors of one sign make of it
    pairs = max(1, min(_PAIRS, _TERMS // terms))
    at = torch.randint(size.numel(), (pairs,), generator=torch.Generator().manual_seed(terms)).to(a.device)
    column, row = at % size.shape[-1], at // size.shape[-1]
    batch, row = row // size.shape[-2], row % size.shape[-2]
    left = a.reshape(-1, *a.shape[-2:])[batch, row]
    right = b.reshape(-1, *b.shape[-2:])[batch, :, column]
    products = (left * right).float().cpu().numpy()
    exact = products.sum(axis=1, dtype=np.float64)
    expected = math.sqrt(float(size.reshape(-1)[at].square().mean()))
    worst = 0.0
    for order in (products, products[:, ::-1]):
        with np.errstate(all="ignore"):
            # Accumulate, unlike sum, really takes one after the other.
            errors = np.add.accumulate(order, axis=1, dtype=np.float32)[:, -1] - exact
            worst = max(worst, float(np.sqrt(np.mean(np.square(errors)))))
    return max(1.0, worst / expected) if expected > 0 and math.isfinite(worst) else 1.0


_Form = Callable[[torch.Tensor], torch.Tensor]


def _factors(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, float, _Form]:
    """Of a product: the factors as [..., rows, terms] and [..., terms, columns], what the sum begins with, a factor of
    the whole, and how its form is made of [..., rows, columns]."""

    def same(size: torch.Tensor) -> torch.Tensor:
        return size

    if name in ("mm", "bmm"):
        return args[0], args[1], None, 1.0, same
    if name == "mv":
        return args[0], args[1][:, None], None, 1.0, lambda size: size[:, 0]
    if name == "dot":
        return args[0][None], args[1][:, None], None, 1.0, lambda size: size[0, 0]
    if name == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        wide = args[0].reshape(-1, args[0].shape[-1])
        return wide, args[1].t(), bias, 1.0, lambda size: size.reshape(*args[0].shape[:-1], -1)
    beta, alpha = (float(kwargs.get(word, 1)) for word in ("beta", "alpha"))
    start = args[0] * beta if beta else None
    if name == "addmv":
        return args[1], args[2][:, None], start, alpha, lambda size: size[:, 0]
    return args[1], args[2], start, alpha, same
