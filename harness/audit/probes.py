"""Inputs made from the problem's own that show lost precision where its own may hide it.

    own       as get_inputs makes them
    integers  13 significant bits at a common scale, the next tensor sparse powers of two: fp32 sums are exact
    spike     one element of each row 256 times as large as the rest
    moved     the mean taken off; where there is none, moved by three times the root mean square
    heavy     each element times exp(1.5 |normal|): a long tail

Only floating-point tensors change, and neither shapes, dtypes nor devices do. Signs stay, but in `moved`. What no
longer suits the reference (a logarithm of a negative number) shows there as NaN, and is then left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.wire.tree import put_together, take_apart

OWN = "own"
_LEAST = 8
"""Elements below which a tensor is left as it is: a scalar that is a temperature is no data."""
_SPIKE = 256.0
_DENSITY = 1 / 16
_BITS = 13


def probe(kind: str, inputs: list[Any], seed: int) -> list[Any] | None:
    """Arguments of one call, altered; None where there is nothing to alter. The originals stay as they are."""
    skeleton, leaves = take_apart(inputs)
    generator = torch.Generator(leaves[0].device if leaves else "cpu").manual_seed(seed)
    altered, count = [], 0
    for leaf in leaves:
        fit = leaf.is_floating_point() and leaf.itemsize > 1 and leaf.numel() >= _LEAST and leaf.dim() > 0
        changed = KINDS[kind](leaf.float(), count, generator).to(leaf.dtype) if fit else leaf
        count += fit
        # Strides as they were: a dense tensor in another order of dimensions is part of the input's form.
        altered.append(torch.empty_like(leaf).copy_(changed))
    made: list[Any] = put_together(skeleton, altered)
    return made if count else None


def _integers(x: torch.Tensor, number: int, generator: torch.Generator) -> torch.Tensor:
    unit = _power_of_two(x)
    if number % 2:
        kept = torch.rand(x.shape, generator=generator, device=x.device) < _DENSITY
        return torch.sign(x) * torch.where(kept, 0.5 * unit, 0.0)
    half = 2.0 ** (_BITS - 1)
    # Odd, so that the last bit is always used, and no tie between neighbours of the coarser format can occur.
    return (2.0 * torch.floor(x / unit * (half / 2)) + 1.0) * (unit / half)


def _spike(x: torch.Tensor, number: int, generator: torch.Generator) -> torch.Tensor:
    del number
    rows = x.reshape(-1, x.shape[-1]).clone()
    place = torch.randint(rows.shape[1], (rows.shape[0], 1), generator=generator, device=x.device)
    sign = torch.where(rows.gather(1, place) < 0, -1.0, 1.0)
    return rows.scatter_(1, place, sign * _SPIKE * _size(x)).reshape(x.shape)


def _moved(x: torch.Tensor, number: int, generator: torch.Generator) -> torch.Tensor:
    del number, generator
    mean, size = x.mean(), _size(x)
    return x - mean if float(mean.abs()) > 0.1 * float(size) else x + 3.0 * size


def _heavy(x: torch.Tensor, number: int, generator: torch.Generator) -> torch.Tensor:
    del number
    return x * torch.exp(1.5 * torch.randn(x.shape, generator=generator, device=x.device).abs())


def _size(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt()


def _power_of_two(x: torch.Tensor) -> float:
    """At least the largest magnitude."""
    largest = float(x.abs().max())
    return float(2.0 ** torch.frexp(torch.tensor(largest))[1].item()) if largest > 0 else 1.0


KINDS: dict[str, Callable[[torch.Tensor, int, torch.Generator], torch.Tensor]] = {
    "integers": _integers,
    "spike": _spike,
    "moved": _moved,
    "heavy": _heavy,
}
"""In the order in which they are tried."""
