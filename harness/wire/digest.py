"""Digests of outputs: said by the worker when its loop ends, and held against the bytes that it hands over later.

A tensor's bytes are taken as 32-bit words, in rows of 256, the last one filled up with zeros, and summed by column as
64-bit integers, which reads each byte once. The sums of all outputs of a loop are hashed: that is the seal. To know the
sums of an output one must know every bit of it, and whatever knows that has done the work; to find another output with
the same sums, within a tolerance, one would have to know them first. Used on both sides of the wire.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import torch

COLUMNS = 256
_ROW_BYTES = 4 * COLUMNS
_FOLDS = 16
_WIDE_BYTES = _FOLDS * _ROW_BYTES
"""Large tensors are summed in rows so long first: more columns keep more of a GPU busy."""


def column_sums(data: torch.Tensor, out: torch.Tensor, first_byte: int = 0) -> None:
    """Add the column sums of `data` to `out`, [256] int64.

    `data` are the bytes of a tensor from `first_byte`, a multiple of 4, on. Sums of pieces that follow each other, each
    but the last a multiple of 4 bytes long, add up to that of the whole.
    """
    if (data.data_ptr() | data.storage_offset()) % 4:
        data = data.clone()  # part of a larger tensor, which begins in the middle of a word
    before, size = first_byte % _ROW_BYTES, data.numel()
    whole = 0 if before else size - size % _WIDE_BYTES
    if whole:
        wide = data[:whole].view(torch.int32).view(-1, _FOLDS * COLUMNS).sum(0, dtype=torch.int64)
        out += wide.view(_FOLDS, COLUMNS).sum(0)
    if whole < size:
        rest = torch.nn.functional.pad(data[whole:], (before, -(before + size - whole) % _ROW_BYTES))
        out += rest.view(torch.int32).view(-1, COLUMNS).sum(0, dtype=torch.int64)


def seal(sums: torch.Tensor) -> bytes:
    """The hash, 16 bytes, of sums that lie in the host's memory, [..., 256] int64."""
    return hashlib.blake2b(sums.numpy().tobytes(), digest_size=16).digest()


class Passing:
    """The sums of an output whose bytes pass by, piece by piece."""

    def __init__(self, leaves: int, device: torch.device) -> None:
        self._sums = torch.zeros(leaves, COLUMNS, dtype=torch.int64, device=device)

    def through(self, pieces: Iterable[tuple[int, int, torch.Tensor]]) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Hand on pieces (leaf number, first byte, bytes), having added them up."""
        for leaf, first, data in pieces:
            column_sums(data, self._sums[leaf], first)
            yield leaf, first, data

    def sums(self) -> torch.Tensor:
        """Of all that has passed, [leaves, 256] int64, in the host's memory."""
        return self._sums.cpu()
