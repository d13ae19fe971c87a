"""Tensor bytes through a shared window."""

from __future__ import annotations

import fcntl
import math
import os
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.wire import transfer
from harness.wire.transfer import ALIGN, ByteStream, TensorSpec, flat_bytes, in_index_order, is_dense, packed
from harness.wire.window import HostWindow, create

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8, torch.complex64]


def copy_through(tensors: list[torch.Tensor], half: int) -> list[torch.Tensor]:
    specs = [TensorSpec.of(tensor) for tensor in tensors]
    copies = [TensorSpec.from_json(spec.to_json()).empty("cpu") for spec in specs]
    out = ByteStream([flat_bytes(tensor, in_storage_order=True) for tensor in tensors])
    into = ByteStream([flat_bytes(copy, in_storage_order=True) for copy in copies])
    assert out.size == into.size
    window = torch.empty(half, dtype=torch.uint8)
    for low in range(0, out.size, half):
        high = min(out.size, low + half)
        out.to_window(low, high, window)
        into.from_window(low, high, window)
    return copies


@settings(deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=5),
    dtype=st.sampled_from(DTYPES),
    turns=st.integers(1, 4),
)
def test_any_tensors_arrive_whole(shapes: list[list[int]], dtype: torch.dtype, turns: int) -> None:
    tensors = [torch.randint(0, 2, shape).to(dtype) for shape in shapes]
    for tensor, copy in zip(tensors, copy_through(tensors, ALIGN * turns), strict=True):
        assert copy.dtype == tensor.dtype
        assert torch.equal(copy, tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24).view(2, 3, 4).permute(2, 0, 1),
        torch.rand(3, 4).t(),
        torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ],
    ids=["permuted", "transposed", "channels last"],
)
def test_dense_orders_are_kept(tensor: torch.Tensor) -> None:
    (copy,) = copy_through([tensor], 4096)
    assert copy.stride() == tensor.stride()
    assert torch.equal(copy, tensor)


@pytest.mark.parametrize("tensor", [torch.rand(4, 6)[:, ::2], torch.rand(3, 1).expand(3, 5), torch.rand(10)[3:7]])
def test_gaps_and_overlaps_are_made_plain(tensor: torch.Tensor) -> None:
    (copy,) = copy_through([tensor], 4096)
    assert copy.is_contiguous()
    assert torch.equal(copy, tensor)


@settings(deadline=None)
@given(data=st.data(), dtype=st.sampled_from([torch.float32, torch.uint8, torch.complex64]))
def test_whatever_lies_in_memory_keeps_its_order_without_its_gaps(data: st.DataObject, dtype: torch.dtype) -> None:
    sizes = data.draw(st.lists(st.integers(0, 4), max_size=4))
    base = torch.randint(0, 100, sizes).to(dtype)
    cuts = [slice(data.draw(st.integers(0, 2)), None, data.draw(st.integers(1, 2))) for _ in sizes]
    tensor = base[tuple(cuts)].permute(data.draw(st.permutations(range(len(sizes)))))
    if dtype.is_complex and data.draw(st.booleans()):
        tensor = tensor.conj()
    if data.draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    assert is_dense(packed(tensor))
    assert torch.equal(packed(tensor), tensor)
    assert torch.equal(
        flat_bytes(tensor, in_storage_order=True), flat_bytes(packed(tensor).resolve_conj(), in_storage_order=True)
    )
    (copy,) = copy_through([tensor], 4096)
    assert torch.equal(copy, tensor)


def test_a_transposed_output_with_gaps_is_not_turned_around() -> None:
    tensor = torch.rand(6, 20).t()[:16]
    assert packed(tensor).stride() == TensorSpec.of(tensor).strides == (1, 16)


@pytest.mark.parametrize(
    ("tensor", "dense"),
    [
        (torch.rand(3, 4), True),
        (torch.rand(3, 4).t(), True),
        (torch.rand(4, 6)[:, ::2], False),
        (torch.rand(3, 1).expand(3, 5), False),
        (torch.rand(1, 4).t(), True),
        (torch.rand(()), True),
    ],
)
def test_density(tensor: torch.Tensor, dense: bool) -> None:
    assert is_dense(tensor) is dense


def test_conjugate_views_are_resolved() -> None:
    tensor = torch.tensor([1 + 2j]).conj()
    assert flat_bytes(tensor).view(torch.complex64)[0].item() == 1 - 2j


def test_the_windows_size_is_sealed() -> None:
    window = HostWindow.create(10_000, register=False)
    seals = fcntl.fcntl(window.fd, fcntl.F_GET_SEALS)
    assert seals & fcntl.F_SEAL_SHRINK
    assert seals & fcntl.F_SEAL_SEAL
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(window.fd, 0)
    window.close()


def test_a_window_takes_long_streams_in_turns() -> None:
    window = create(1, torch.device("cpu"), "host")
    turns = list(window.halves(window.half * 2 + 5))
    assert [half for half, _, _ in turns] == [0, 1, 0]
    assert turns[-1][2] == window.half * 2 + 5
    window.close()


@settings(deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=3),
    part=st.integers(1, 40),
    rng=st.randoms(),
)
def test_pieces_as_they_lie_in_memory_come_in_the_order_of_indices(
    shapes: list[list[int]], part: int, rng: random.Random
) -> None:
    tensors = []
    for shape in shapes:
        tensor = torch.arange(math.prod(shape), dtype=torch.int16).reshape(shape)
        tensors.append(tensor.permute(rng.sample(range(len(shape)), len(shape))))
    specs = [TensorSpec.of(tensor) for tensor in tensors]
    assert all(spec.is_dense for spec in specs)
    stored = [flat_bytes(tensor, in_storage_order=True) for tensor in tensors]
    pieces = [
        (leaf, first, data[first : first + part])
        for leaf, data in enumerate(stored)
        for first in range(0, data.numel(), part)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "_PIECE_BYTES", 32)
        found = list(in_index_order(pieces, specs, torch.device("cpu")))
    for leaf, tensor in enumerate(tensors):
        parts = [data for number, _, data in found if number == leaf]
        assert torch.equal(torch.cat([torch.empty(0, dtype=torch.uint8), *parts]), flat_bytes(tensor))


@pytest.mark.parametrize("strides", [(1,), (1, 1), (3, 1), (0, 1), (1 << 62, 1)])
def test_strides_that_no_dense_tensor_has_are_told(strides: tuple[int, ...]) -> None:
    assert TensorSpec("float32", (4, 2), (1, 4)).is_dense
    assert not TensorSpec("float32", (4, 2), strides).is_dense
