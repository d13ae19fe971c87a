"""Answers that cost no work, or leave some of it out, made from the right one; each must be refused.

Leaves are flat, as the comparison has them: of complex numbers the real and imaginary parts in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.audit.formats import MANTISSA, precision_of
from harness.check.compare import Expected, Leaf
from harness.verification.subject import allowed
from harness.wire.tree import paths, take_apart

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCES_OFF = 3.0
"""By how many tolerances one element is off."""


@dataclass(frozen=True)
class Trivial:
    """One such answer."""

    name: str
    """As in the code `answer.NAME`."""
    detail: str
    """Which of several."""
    flats: list[torch.Tensor | None]
    """By leaf; None: it makes no sense there."""


def trivial_answers(
    expected: Expected, previous: Expected, inputs: list[Any], asked: str, generator: torch.Generator
) -> Iterator[Trivial]:
    """All of them for one call. `previous` is the right answer to another input, `asked` the problem's precision."""

    def each(name: str, make: Any, detail: str = "") -> Trivial:
        return Trivial(name, detail, [make(leaf) if leaf.flat.numel() else None for leaf in expected.leaves])

    yield each("zeros", lambda leaf: torch.zeros_like(leaf.flat))
    yield each("ones", lambda leaf: torch.ones_like(leaf.flat))
    yield each("mean", _mean)
    yield Trivial("previous", "", [_previous(at, leaf, previous) for at, leaf in enumerate(expected.leaves)])
    skeleton, tensors = take_apart(inputs)
    for at, path in paths(skeleton, "inputs").items():
        yield each("input", lambda leaf, at=at: _as_output(tensors[at], leaf), path)
    for dimension in range(max((len(leaf.spec.shape) for leaf in expected.leaves), default=0)):
        yield each("permuted", lambda leaf, at=dimension: _rolled(leaf, at), f"dimension {dimension}")
    for name in HALVES:
        yield each("half", lambda leaf, name=name: at_half(leaf, name, asked), name)
    yield each("rows", _without_last_row)
    yield each("element", lambda leaf: _one_off(leaf, generator))


def at_half(leaf: Leaf, name: str, asked: str) -> torch.Tensor | None:
    """The leaf rounded to a half precision; None where it has no more than that itself, or need not have."""
    own = precision_of(leaf.spec.dtype)
    if own is None or MANTISSA[name] >= MANTISSA[own]:
        return None
    if asked == "any" or MANTISSA[name] >= MANTISSA[asked]:
        return None
    return leaf.flat.to(HALVES[name]).to(leaf.flat.dtype)


def _mean(leaf: Leaf) -> torch.Tensor | None:
    """None for a single element, whose mean it is."""
    if leaf.flat.numel() <= leaf.parts:
        return None
    wide = leaf.flat.to(torch.float64)
    known = wide[torch.isfinite(wide)]
    mean = known.mean() if known.numel() else wide.new_zeros(())
    if leaf.flat.dtype is torch.bool:
        return torch.full_like(leaf.flat, bool(mean >= 0.5))
    rounded = mean if leaf.flat.is_floating_point() else mean.round()
    return rounded.to(leaf.flat.dtype).repeat(leaf.flat.numel())


def _previous(at: int, leaf: Leaf, previous: Expected) -> torch.Tensor | None:
    """None also where another input gives another shape: then its form is refused."""
    if not leaf.flat.numel() or at >= len(previous.leaves) or previous.leaves[at].spec != leaf.spec:
        return None
    return previous.leaves[at].flat


def _as_output(tensor: torch.Tensor, leaf: Leaf) -> torch.Tensor | None:
    if tensor.numel() * leaf.parts != leaf.flat.numel() or tensor.is_complex() != (leaf.parts == 2):
        return None
    flat = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return flat.detach().reshape(-1).to(leaf.flat.dtype)


def _rolled(leaf: Leaf, dimension: int) -> torch.Tensor | None:
    shape = leaf.spec.shape
    if dimension >= len(shape) or shape[dimension] < 2:
        return None
    return leaf.flat.view(*shape, leaf.parts).roll(1, dimension).reshape(-1)


def _without_last_row(leaf: Leaf) -> torch.Tensor | None:
    if not leaf.spec.shape:
        return None
    flat = leaf.flat.clone()
    flat[-leaf.spec.shape[-1] * leaf.parts :] = 0
    return flat


def _one_off(leaf: Leaf, generator: torch.Generator) -> torch.Tensor | None:
    """Of an exact leaf an element is off by one step: three times nothing is nothing."""
    usable = torch.isfinite(leaf.flat.to(torch.float64)).nonzero()
    if not usable.numel():
        return None
    at = int(usable[int(torch.randint(usable.numel(), (), generator=generator))])
    flat = leaf.flat.clone()
    value = leaf.flat[at]
    if value.dtype is torch.bool:
        flat[at] = not bool(value)
        return flat
    room = TOLERANCES_OFF * float(allowed(leaf)[at])
    # Towards zero where that is possible, so that the largest number of a type does not run over.
    sign = -1 if float(value) > 0 else 1
    if not value.dtype.is_floating_point:
        flat[at] = int(value) + sign * max(1, math.ceil(room))
        return flat
    wide, step = value.to(torch.float64), room
    while bool((wide + sign * step).to(value.dtype) == value):
        step = max(2 * step, 2.0**-1074)
    flat[at] = (wide + sign * step).to(value.dtype)
    return flat
