"""Inputs that can't be read until the clock runs: handed over under a mask, whose key comes with the order to begin.

    masked = bytes XOR stream(key)      the stream is torch's own generator, seeded with the key, on the device at hand

So nothing of a timed call can be done before it is timed. Used on both sides of the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from harness.transfer import flat_bytes, is_dense
from harness.tree import put_together, take_apart

_WORD = 8


def masked(value: Any, key: int) -> Any:
    """A copy of a value under the mask of `key`. Every tensor of it is dense and has memory of its own."""
    skeleton, leaves = take_apart(value)
    own = [leaf.clone() if is_dense(leaf) else leaf.contiguous().clone() for leaf in leaves]
    mask(own, key)
    return put_together(skeleton, own)


def mask(leaves: Sequence[torch.Tensor], key: int) -> None:
    """Put the mask of `key` on tensors that are dense in memory, or take it off, in place."""
    for number, leaf in enumerate(leaves):
        data = flat_bytes(leaf, in_storage_order=True)
        generator = torch.Generator(leaf.device).manual_seed(key + number)
        words = -(-data.numel() // _WORD)
        stream = torch.empty(words, dtype=torch.int64, device=leaf.device).random_(generator=generator)
        if data.numel() % _WORD:
            data ^= stream.view(torch.uint8)[: data.numel()]
        else:
            view = data.view(torch.int64)
            view ^= stream
