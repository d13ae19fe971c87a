"""Digests of outputs: said by the worker when its loop ends, and held against the bytes that it hands over later.

A tensor's bytes are taken as 32-bit words, in rows of 256, the last one filled up with zeros, and summed by column as
64-bit integers, which reads each byte once. The sums of all outputs of a loop are hashed: that is the seal. To know the
sums of an output one must know every bit of it, and whatever knows that has done the work.

What remains: sums are no hash. Who says made-up sums can look for an output within the tolerance that has them, after
the loop, and finds one where an output has many zeros or may be far off: a zero may become any small number, whose bits
are large. So the sums are exact. Modulo 2^32 or 2^64 nearly every output could be made to fit.

Sums are made in rows of 4096 words and folded to 256 at the end: more columns keep more of a GPU busy. Used on both
sides of the wire.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import torch

COLUMNS = 256
WIDE = 16 * COLUMNS
"""Columns while sums are made."""
_WORD = 4


def wide_sums(data: torch.Tensor, out: torch.Tensor, first_byte: int = 0) -> None:
    """Put the sums of `data` by column into `out`, [WIDE] int64, or add them to it if it is not the first piece.

    `data` are the bytes of a tensor from `first_byte`, a multiple of 4, on. Sums of pieces that follow each other, each
    but the last a multiple of 4 bytes long, add up to that of the whole; `out` is zero before the first.
    """
    if (data.data_ptr() | data.storage_offset()) % _WORD:
        data = data.clone()  # part of a larger tensor, which begins in the middle of a word
    column, size = first_byte // _WORD % WIDE, data.numel()
    even = size - size % _WORD
    words = data[:even].view(torch.int32)
    if column:
        head, words = words[: WIDE - column], words[WIDE - column :]
        out[column : column + head.numel()] += head
    if whole := words.numel() - words.numel() % WIDE:
        rows = words[:whole].view(-1, WIDE)
        if first_byte:
            out += rows.sum(0, dtype=torch.int64)
        else:
            torch.sum(rows, 0, dtype=torch.int64, out=out)
    if whole < words.numel():
        out[: words.numel() - whole] += words[whole:]
    if even < size:
        last = torch.nn.functional.pad(data[even:], (0, _WORD - size % _WORD))
        column = (first_byte + even) // _WORD % WIDE
        out[column : column + 1] += last.view(torch.int32)


def folded(sums: torch.Tensor) -> torch.Tensor:
    """[..., WIDE] to [..., COLUMNS], int64."""
    return sums.view(*sums.shape[:-1], WIDE // COLUMNS, COLUMNS).sum(-2)


def seal(sums: torch.Tensor) -> bytes:
    """The hash, 16 bytes, of sums that lie in the host's memory, [..., COLUMNS] int64."""
    return hashlib.blake2b(sums.reshape(-1).numpy().data, digest_size=16).digest()


class Passing:
    """The sums of an output whose bytes pass by, piece by piece."""

    def __init__(self, leaves: int, device: torch.device) -> None:
        self._sums = torch.zeros(leaves, WIDE, dtype=torch.int64, device=device)

    def through(self, pieces: Iterable[tuple[int, int, torch.Tensor]]) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Hand on pieces (leaf number, first byte, bytes), having added them up."""
        for leaf, first, data in pieces:
            wide_sums(data, self._sums[leaf], first)
            yield leaf, first, data

    def sums(self) -> torch.Tensor:
        """Of all that has passed, [leaves, COLUMNS] int64, in the host's memory."""
        return folded(self._sums).cpu()
