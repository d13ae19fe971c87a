"""Inputs that can't be read until the clock runs: handed over under a mask, whose key comes with the order to begin.

    masked = bytes XOR stream(key)      a GPU's stream is made of BLAKE3's compressions (masks.cu), a CPU's is Philox

So nothing of a timed call can be done before it is timed. Where a device waits for the key (stopwatch.py), nobody in
its process has seen it before. Torch's generator on a CPU would not do: it is a Mersenne Twister, whose seed of 32 bits
follows from 5 KB of inputs that somebody knows. Used on both sides of the wire.
"""

from __future__ import annotations

import abc
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from harness.wire.kernels import THREADS, Kernels
from harness.wire.transfer import flat_bytes, packed
from harness.wire.tree import put_together, take_apart

KEY_BITS = 62
_WORD = 8
_KINDS = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p)
"""Of what the kernel takes."""
_BLOCK_BYTES = THREADS * 64


class Masker(abc.ABC):
    """Masks on one device."""

    device: torch.device

    @abc.abstractmethod
    def put_on(self, data: torch.Tensor, number: int, key: torch.Tensor) -> None:
        """Put the mask of a key, [1] int64 on the device, on `data`, bytes, or take it off; each number has another."""

    def key(self, value: int) -> torch.Tensor:
        """A key, of KEY_BITS, where `mask` takes it."""
        return torch.tensor([value], dtype=torch.int64, device=self.device)


class HostMasker(Masker):
    """In a host's memory."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def put_on(self, data: torch.Tensor, number: int, key: torch.Tensor) -> None:
        """By numpy's Philox."""
        philox = numpy.random.Philox(key=[int(key), 0], counter=[0, 0, number, 0])
        stream = torch.from_numpy(philox.random_raw(-(-data.numel() // _WORD)).view(numpy.int64))
        if data.numel() % _WORD:
            data ^= stream.view(torch.uint8)[: data.numel()]
        else:
            view = data.view(torch.int64)
            view ^= stream


class GpuMasker(Masker):
    """In a GPU's memory, on the current stream."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels, self.device = kernels, kernels.device

    def put_on(self, data: torch.Tensor, number: int, key: torch.Tensor) -> None:
        """A block of threads for each 8 KiB; what the key is matters only when the device comes to it."""
        if blocks := -(-data.numel() // _BLOCK_BYTES):
            values = (data.data_ptr(), data.numel(), number, key.data_ptr())
            self._kernels.launch("mask_bytes", blocks, THREADS, values, _KINDS)


def masked(value: Any, key: int, masker: Masker) -> Any:
    """A copy of a value under the mask of `key`. Every tensor of it is dense and has memory of its own."""
    skeleton, leaves = take_apart(value)
    own = [packed(leaf, copy=True) for leaf in leaves]
    mask(own, masker.key(key), masker)
    return put_together(skeleton, own)


def mask(leaves: Sequence[torch.Tensor], key: torch.Tensor, masker: Masker) -> None:
    """Put the mask of `key` on tensors that are dense in memory, or take it off, in place."""
    for number, leaf in enumerate(leaves):
        masker.put_on(flat_bytes(leaf, in_storage_order=True), number, key)
