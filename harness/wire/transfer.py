"""Tensors as bytes: what has to be known to make room for them, and several of them as one stream.

    tensors   [a ........][b ..][c ......]
    stream    [a ........    ][b ..        ][c ......      ]     each tensor at a multiple of ALIGN

A stream crosses from process to process through a window of shared memory (window.py), a part at a time. Used on both
sides of the wire.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

ALIGN = 256
_PIECE_BYTES = 64 << 20


@dataclass(frozen=True)
class TensorSpec:
    """What is needed to make room for a tensor."""

    dtype: str
    """As in `float32`."""
    shape: tuple[int, ...]
    """Sizes."""
    strides: tuple[int, ...] | None = None
    """Strides in elements where memory has another order than the usual, else None. Never with gaps."""

    @property
    def nbytes(self) -> int:
        """Bytes that its elements take."""
        return math.prod(self.shape) * dtype_of(self.dtype).itemsize

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The spec of a tensor as `packed` leaves it."""
        strides = None
        if not tensor.is_contiguous():
            strides = tuple(tensor.stride()) if is_dense(tensor) else _packed_strides(tensor)
        return cls(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), strides)

    @property
    def is_dense(self) -> bool:
        """Whether these strides, if there are any, leave no gaps and overlap nowhere."""
        if self.strides is None:
            return True
        if len(self.strides) != len(self.shape):
            return False
        try:
            return is_dense(torch.empty_strided(self.shape, self.strides, dtype=dtype_of(self.dtype), device="meta"))
        except RuntimeError:  # no memory is that large
            return False

    def empty(self, device: torch.device | str) -> torch.Tensor:
        """An uninitialised tensor of this spec."""
        if self.strides is not None:
            return torch.empty_strided(self.shape, self.strides, dtype=dtype_of(self.dtype), device=device)
        return torch.empty(self.shape, dtype=dtype_of(self.dtype), device=device)

    def to_json(self) -> dict[str, Any]:
        """As it travels."""
        return {"dtype": self.dtype, "shape": list(self.shape), "strides": self.strides and list(self.strides)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TensorSpec:
        """The other way."""
        return cls(data["dtype"], tuple(data["shape"]), tuple(data["strides"]) if data["strides"] else None)


def dtype_of(name: str) -> torch.dtype:
    """The dtype called `name`. Raises ValueError for anything else."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is no dtype")
    return found


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps and overlaps, in whatever order of dimensions."""
    if not tensor.numel():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def packed(tensor: torch.Tensor, *, copy: bool = False) -> torch.Tensor:
    """The tensor itself where it is dense, or with `copy` a copy; elsewhere a copy without its gaps, in the order in
    which it lies in memory: to put that in another order as well would take the device several times as long."""
    if is_dense(tensor):
        return torch.clone(tensor) if copy else tensor
    order = _memory_order(tensor)
    return tensor.permute(order).contiguous().permute([order.index(dimension) for dimension in range(tensor.dim())])


def _memory_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions, the one whose elements are farthest apart first."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda dimension: -strides[dimension])


def _packed_strides(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Those that `packed` leaves; None where they are the usual ones."""
    order, strides, below = _memory_order(tensor), [0] * tensor.dim(), 1
    for dimension in reversed(order):
        strides[dimension] = below
        below *= tensor.shape[dimension]
    return None if order == sorted(order) else tuple(strides)


def flat_bytes(tensor: torch.Tensor, *, in_storage_order: bool = False) -> torch.Tensor:
    """The tensor's elements as bytes, one dimension: in the order of its indices, or as they lie in memory.

    A view where the memory allows it, a copy elsewhere, which has no gaps. A conjugate or negative view is resolved.
    """
    tensor = tensor.detach()
    tensor = (packed(tensor) if in_storage_order else tensor).resolve_conj().resolve_neg()
    if in_storage_order:
        tensor = tensor.as_strided((tensor.numel(),), (1,))
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def in_index_order(
    pieces: Iterable[tuple[int, int, torch.Tensor]], specs: Sequence[TensorSpec], device: torch.device
) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Pieces (leaf number, first byte, bytes) of tensors as they lie in memory, in the order of their indices.

    Tensors with strides are put together first, on `device`, with a copy.
    """
    held: dict[int, torch.Tensor] = {}
    for leaf, first, data in pieces:
        spec = specs[leaf]
        if spec.strides is None:
            yield leaf, first, data
            continue
        if leaf not in held:
            held[leaf] = spec.empty(device)
        tensor = held[leaf]
        flat_bytes(tensor, in_storage_order=True)[first : first + data.numel()].copy_(data)
        if first + data.numel() == spec.nbytes:
            flat = flat_bytes(held.pop(leaf))
            for low in range(0, flat.numel(), _PIECE_BYTES):
                yield leaf, low, flat[low : low + _PIECE_BYTES]


class ByteStream:
    """Several flat byte tensors seen as one stream, each at a multiple of ALIGN."""

    def __init__(self, pieces: Sequence[torch.Tensor]) -> None:
        self.pieces = list(pieces)
        self.offsets, self.size = offsets([piece.numel() for piece in pieces])

    def to_window(self, low: int, high: int, window: torch.Tensor) -> None:
        """Copy the bytes from `low` to `high` of the stream to the window's start, and wait for it."""
        for index, start, end in self.within(low, high):
            at = self.offsets[index] + start - low
            window[at : at + end - start].copy_(self.pieces[index][start:end], non_blocking=True)
        _wait(window, *self.pieces)

    def from_window(self, low: int, high: int, window: torch.Tensor) -> None:
        """The other way."""
        for index, start, end in self.within(low, high):
            at = self.offsets[index] + start - low
            self.pieces[index][start:end].copy_(window[at : at + end - start], non_blocking=True)
        _wait(window, *self.pieces)

    def within(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """The parts of pieces that lie between `low` and `high`: piece number, first byte, byte after the last."""
        for index, (offset, piece) in enumerate(zip(self.offsets, self.pieces, strict=True)):
            start, end = max(low, offset) - offset, min(high, offset + piece.numel()) - offset
            if start < end:
                yield index, start, end


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where pieces of these sizes (bytes) begin in a stream, and how long the stream is."""
    found, at = [], 0
    for size in sizes:
        found.append(at)
        at += -(-size // ALIGN) * ALIGN
    return found, at


def _wait(*tensors: torch.Tensor) -> None:
    """Until copies from or to these are done: the other process is told next, and knows nothing of our streams."""
    for tensor in tensors:
        if tensor.is_cuda:
            torch.cuda.current_stream(tensor.device).synchronize()
            return
