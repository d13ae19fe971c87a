"""Digests of outputs: said by the worker when its loop ends, and held against the bytes that it hands over later.

    tile    a part of a tensor, 64 KiB or more, so that there are at most 4096 of them: 16 bytes of hash
    root    of the tiles of all tensors of one output: 16 bytes
    seal    of the roots of all outputs of a loop: 16 bytes

To have a seal one must have every bit of every output, and whatever has those has done the work. Outputs only have to
be right within a tolerance, so that somebody who made a seal up could afterwards look for outputs that fit it: against
a sum that is easy, against a hash it is not (hashing.py). Used on both sides of the wire.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import torch

from harness.wire.hashing import Hasher
from harness.wire.transfer import TensorSpec

WORDS = 2
"""int64 words of a hash."""
_TILES = 4096
_TILE_BYTES = 64 << 10


def tile_bytes(nbytes: int) -> int:
    """Bytes of each tile but the last of a tensor of so many: a power of two."""
    return int(max(_TILE_BYTES, 1 << max(0, -(-nbytes // _TILES) - 1).bit_length()))


class Layout:
    """Where the tiles of an output's tensors are among all of them."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self.nbytes = [spec.nbytes for spec in specs]
        self.starts: list[int] = []
        self.count = 0
        for size in self.nbytes:
            self.starts.append(self.count)
            self.count += -(-size // tile_bytes(size))


class Digests:
    """Of the outputs of a loop, queued on the current stream as they come. `tiles` are [turns, count, 2] and `roots`
    [turns, 2] int64, on the hasher's device."""

    def __init__(self, hasher: Hasher, specs: Sequence[TensorSpec], turns: int) -> None:
        """`specs`: what an output is expected to be. One of another size, as other inputs may give, needs memory of its
        own in the loop if it is larger."""
        self._hasher, count = hasher, Layout(specs).count
        self.tiles = torch.zeros(turns, count, WORDS, dtype=torch.int64, device=hasher.device)
        self.roots = torch.zeros(turns, WORDS, dtype=torch.int64, device=hasher.device)
        self._rows = [*self.tiles]
        self._filled = [0] * turns

    def add(self, turn: int, data: torch.Tensor) -> None:
        """The bytes of the next tensor of an output."""
        step, filled = tile_bytes(data.numel()), self._filled[turn]
        self._filled[turn] += -(-data.numel() // step)
        if (lacking := self._filled[turn] - len(self._rows[turn])) > 0:
            row = self._rows[turn]
            self._rows[turn] = torch.cat([row, torch.zeros(lacking, WORDS, dtype=row.dtype, device=row.device)])
        self._hasher.tiles(data, 0, step, data.numel(), self._rows[turn][filled:])

    def end(self) -> None:
        """All have come."""
        if all(filled == self.tiles.shape[1] for filled in self._filled):
            self._hasher.roots(self.tiles, self.roots)
            return
        for turn, (row, filled) in enumerate(zip(self._rows, self._filled, strict=True)):
            self._hasher.roots(row[None, :filled], self.roots[turn : turn + 1])


class Passing:
    """The digest of an output whose bytes pass by, piece by piece."""

    def __init__(self, hasher: Hasher, specs: Sequence[TensorSpec]) -> None:
        self._hasher, self._layout = hasher, Layout(specs)
        self._tiles = torch.zeros(1, self._layout.count, WORDS, dtype=torch.int64, device=hasher.device)
        self._held: dict[int, torch.Tensor] = {}
        """Of each tensor, the bytes after its last whole tile."""

    def through(self, pieces: Iterable[tuple[int, int, torch.Tensor]]) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Hand on pieces (leaf number, first byte, bytes), in the order of their bytes, having hashed them."""
        for leaf, first, data in pieces:
            self._add(leaf, first, data)
            yield leaf, first, data

    def _add(self, leaf: int, first: int, data: torch.Tensor) -> None:
        size = self._layout.nbytes[leaf]
        step = tile_bytes(size)
        if (held := self._held.pop(leaf, None)) is not None:
            data, first = torch.cat([held, data]), first - held.numel()
        whole = data.numel() if first + data.numel() == size else data.numel() - data.numel() % step
        if whole < data.numel():
            self._held[leaf] = data[whole:].clone()  # the memory of a piece is used again
        if whole:
            tiles = self._tiles[0, self._layout.starts[leaf] + first // step :]
            self._hasher.tiles(data[:whole], first // step, step, size, tiles)

    def root(self) -> torch.Tensor:
        """Of all that has passed, [2] int64, in the host's memory."""
        roots = torch.zeros(1, WORDS, dtype=torch.int64, device=self._hasher.device)
        self._hasher.roots(self._tiles, roots)
        return roots[0].cpu()


def seal(roots: torch.Tensor) -> bytes:
    """The hash, 16 bytes, of roots that lie in the host's memory, [turns, 2] int64."""
    return seal_of(roots.reshape(-1).numpy().data)


def seal_of(data: bytes | memoryview) -> bytes:
    """The same of their bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()
