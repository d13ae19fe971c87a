"""Inputs that can't be read until the clock runs: handed over under a mask, whose key comes with the order to begin.

    masked = bytes XOR stream(key)      the stream is Philox, torch's own on a GPU and numpy's on a CPU

So nothing of a timed call can be done before it is timed. Torch's generator on a CPU would not do: it is a Mersenne
Twister, whose seed of 32 bits follows from 5 KB of inputs that somebody knows. Used on both sides of the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from harness.wire.transfer import flat_bytes, packed
from harness.wire.tree import put_together, take_apart

_WORD = 8
_LOWEST = -(1 << 63)


def masked(value: Any, key: int) -> Any:
    """A copy of a value under the mask of `key`. Every tensor of it is dense and has memory of its own."""
    skeleton, leaves = take_apart(value)
    own = [packed(leaf, copy=True) for leaf in leaves]
    mask(own, key)
    return put_together(skeleton, own)


def mask(leaves: Sequence[torch.Tensor], key: int) -> None:
    """Put the mask of `key` on tensors that are dense in memory, or take it off, in place."""
    for number, leaf in enumerate(leaves):
        data = flat_bytes(leaf, in_storage_order=True)
        stream = _stream(-(-data.numel() // _WORD), key, number, leaf.device)
        if data.numel() % _WORD:
            data ^= stream.view(torch.uint8)[: data.numel()]
        else:
            view = data.view(torch.int64)
            view ^= stream


def _stream(words: int, key: int, number: int, device: torch.device) -> torch.Tensor:
    """So many random words, all 64 bits of each, for the leaf of that number."""
    if device.type == "cpu":
        philox = numpy.random.Philox(key=[key, 0], counter=[0, 0, number, 0])
        return torch.from_numpy(philox.random_raw(words).view(numpy.int64))
    generator = torch.Generator(device).manual_seed(key + number)
    return torch.empty(words, dtype=torch.int64, device=device).random_(_LOWEST, None, generator=generator)
