"""Inputs that can't be read until the clock runs: handed over under a mask, whose key comes with the order to begin.

    masked = bytes XOR stream(key)      the stream is torch's own generator, seeded with the key, on the device at hand

So nothing of a timed call can be done before it is timed. Used on both sides of the wire.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.transfer import flat_bytes

_WORD = 8


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
