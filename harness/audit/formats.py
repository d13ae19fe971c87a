"""Number formats that an arithmetic may fall back to, emulated in float64.

    float64   s eeeeeeeeeee mmmmmmmmmm|mmmmmm....        the bar: what tf32 and fp16 keep of the 52 bits

Two ways of dropping bits, since hardware has both: to the nearest, as conversions do, and towards zero, as a tensor
core does with an operand that was not converted. The second is moved by half a step here, so that its errors have no
common sign: then they can't resemble an honest result that is merely biased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

MANTISSA = {"fp64": 52, "fp32": 23, "tf32": 10, "fp16": 10, "bf16": 7, "fp8": 3}
"""Explicit bits of the significand by name of a precision, finest first."""
_FARTHEST = 16
"""Bits: from fp32 down to bf16. Below fp64 the next one counts whatever it lacks."""
_OF_DTYPE = {
    "float64": "fp64",
    "complex128": "fp64",
    "float32": "fp32",
    "complex64": "fp32",
    "float16": "fp16",
    "complex32": "fp16",
    "bfloat16": "bf16",
}

Rounding = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Emulated:
    """One arithmetic to hold a submission's errors against."""

    name: str
    """As in MANTISSA."""
    rounding: Rounding
    """float64 in, float64 out, of the same shape."""


def precision_of(dtype: str) -> str | None:
    """The precision that a leaf's dtype can show; None for what is no floating-point type."""
    return "fp8" if dtype.startswith("float8") else _OF_DTYPE.get(dtype)


def below(precision: str) -> list[Emulated]:
    """The arithmetics that are coarser than a precision, mildest first, by each way of dropping bits.

    Those farther below are left out: nobody takes fp8 for fp32 within a tolerance, and each costs a run.
    """
    bits = MANTISSA[precision]
    least = min(bits - _FARTHEST, max([kept for kept in MANTISSA.values() if kept < bits], default=0))
    return [
        Emulated(name, rounding)
        for name, kept in MANTISSA.items()
        if bits > kept >= least
        for rounding in _roundings(name)
    ]


def emulated(precision: str) -> Emulated:
    """The arithmetic of a precision, rounding to the nearest."""
    return Emulated(precision, _roundings(precision)[0])


def half_step(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """Half the distance between neighbours of the leaf's dtype at each value; values are float64.

    0 for a zero: that can be hit exactly.
    """
    name = precision_of(dtype)
    assert name is not None
    _, exponent = torch.frexp(values)
    least = {"fp64": -1074, "fp16": -24, "fp8": -9}.get(name, -149 if name == "fp32" else -133)
    step = torch.ldexp(torch.ones_like(values), (exponent - 1 - MANTISSA[name]).clamp_min(least) - 1)
    return torch.where(values == 0, 0.0, step)


def _roundings(name: str) -> list[Rounding]:
    if name == "fp16":
        return [_through(torch.float16)]  # its range is part of what it does
    if name == "fp8":
        return [_through(torch.float8_e4m3fn)]
    dropped = MANTISSA["fp64"] - MANTISSA[name]
    return [_nearest(dropped), _centred_truncation(dropped)] if dropped else [torch.clone]


def noise(precision: str, seed: int) -> Emulated:
    """Random relative errors as large as those of a precision, with nothing to do with the numbers' bits."""
    size = 2.0 ** (-MANTISSA[precision] - 1)
    state = {"number": seed}

    def rounding(values: torch.Tensor) -> torch.Tensor:
        state["number"] += 1
        generator = torch.Generator(values.device).manual_seed(state["number"])
        drawn = torch.rand(values.shape, generator=generator, device=values.device, dtype=values.dtype)
        return values * (1.0 + size * (2.0 * drawn - 1.0))

    return Emulated(precision, rounding)


def _through(dtype: torch.dtype) -> Rounding:
    def rounding(values: torch.Tensor) -> torch.Tensor:
        return values.to(dtype).to(torch.float64)

    return rounding


def _nearest(dropped: int) -> Rounding:
    """To the nearest, ties to even, on the bits themselves: a carry moves into the exponent as it should."""
    half, keep = (1 << (dropped - 1)) - 1, -1 << dropped

    def rounding(values: torch.Tensor) -> torch.Tensor:
        bits = values.contiguous().view(torch.int64)
        rounded = (bits + half + ((bits >> dropped) & 1)) & keep
        return torch.where(torch.isfinite(values), rounded.view(torch.float64), values)

    return rounding


def _centred_truncation(dropped: int) -> Rounding:
    """Towards zero, and back by half a step: the middle of the values that the truncated one may have been."""
    middle, keep = 1 << (dropped - 1), -1 << dropped

    def rounding(values: torch.Tensor) -> torch.Tensor:
        bits = values.contiguous().view(torch.int64)
        moved = ((bits & keep) | middle).view(torch.float64)
        return torch.where(torch.isfinite(values) & ((bits & ~keep) != 0), moved, values)

    return rounding
