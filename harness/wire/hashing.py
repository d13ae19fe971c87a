"""Hashes of tensors where they lie: BLAKE2b in a host's memory, and a kernel of our own in a GPU's.

The kernel (`tiles.cu`) is a tree of BLAKE3's compressions, for the same reason: outputs only have to be right within a
tolerance, so that whoever looks for some with a hash that was said before may set many of their bits, and all those of
numbers near zero. Nothing simpler stands that: sums can be solved, and so can a permutation that takes words in whole,
where a few numbers near zero lead to whatever state is wanted. Used on both sides of the wire.
"""

from __future__ import annotations

import abc
import concurrent.futures
import ctypes
import functools
import hashlib
import os
import struct
from typing import Any

import torch

from harness.wire.kernels import THREADS, Kernels

_SALT = struct.Struct("<QQ")
_ROOT = (1 << 32) - 1
"""In place of a tile's number: no tensor has so many."""
_WORD = 16
_KINDS = (ctypes.c_void_p, *[ctypes.c_uint64] * 3, *[ctypes.c_uint32] * 3, ctypes.c_void_p)
"""Of what the kernel takes."""


class Hasher(abc.ABC):
    """Hashes on one device."""

    device: torch.device

    @abc.abstractmethod
    def tiles(self, data: torch.Tensor, first: int, step: int, nbytes: int, out: torch.Tensor) -> None:
        """Hash `data`, bytes of a tensor of `nbytes` from its tile number `first` on, into `out`, [tiles or more, 2]
        int64. A tile has `step` bytes, the last one may have fewer."""

    @abc.abstractmethod
    def roots(self, tiles: torch.Tensor, out: torch.Tensor) -> None:
        """Hash each row of `tiles`, [rows, count, 2] int64, into a row of `out`, [rows, 2] int64."""


class HostHasher(Hasher):
    """In a host's memory."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def tiles(self, data: torch.Tensor, first: int, step: int, nbytes: int, out: torch.Tensor) -> None:
        """Several at once, since the interpreter's lock is not held meanwhile."""

        def hashed(number: int) -> None:
            out[number] = _hash(data[number * step : (number + 1) * step], first + number, nbytes)

        count = -(-data.numel() // step)
        # A list of nothing, but errors are raised.
        list((_threads().map if count > 1 else map)(hashed, range(count)))

    def roots(self, tiles: torch.Tensor, out: torch.Tensor) -> None:
        """The same for rows of hashes."""
        for row, each in zip(tiles, out, strict=True):
            data = row.reshape(-1).view(torch.uint8) if row.numel() else torch.empty(0, dtype=torch.uint8)
            each.copy_(_hash(data, _ROOT, data.numel()))


class GpuHasher(Hasher):
    """In a GPU's memory, on the current stream."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels, self.device = kernels, kernels.device

    def tiles(self, data: torch.Tensor, first: int, step: int, nbytes: int, out: torch.Tensor) -> None:
        """A block of threads a tile."""
        self._run(-(-data.numel() // step), data, data.numel(), step, nbytes, first, 1, out)

    def roots(self, tiles: torch.Tensor, out: torch.Tensor) -> None:
        """A block of threads a row."""
        rows, count = tiles.shape[0], tiles.shape[1]
        row_bytes = count * _WORD
        # Where there are no tiles each row is the hash of nothing.
        self._run(rows, tiles, rows * row_bytes, row_bytes, row_bytes, _ROOT, 0, out)

    def _run(
        self, blocks: int, data: torch.Tensor, here: int, step: int, nbytes: int, first: int, numbered: int, out: Any
    ) -> None:
        if not blocks:
            return
        place = data.data_ptr()
        unit = min(_WORD, place & -place) or _WORD  # what it is aligned to; no memory is to all
        values = (place, here, step, nbytes, first, numbered, unit, out.data_ptr())
        self._kernels.launch("hash_tiles", blocks, THREADS, values, _KINDS)


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)), "hash")


def _hash(data: torch.Tensor, tile: int, nbytes: int) -> torch.Tensor:
    digest = hashlib.blake2b(data.numpy().data, digest_size=16, salt=_SALT.pack(tile, nbytes)).digest()
    return torch.frombuffer(bytearray(digest), dtype=torch.int64)
