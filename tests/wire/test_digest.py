"""Seals on outputs: the same however the bytes come, and another one for another byte."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.wire import digest
from harness.wire.digest import Digests, Passing, seal, tile_bytes
from harness.wire.hashing import HostHasher
from harness.wire.transfer import TensorSpec, flat_bytes

HOST = HostHasher()


@pytest.fixture(scope="module", autouse=True)
def small_tiles() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "_TILE_BYTES", 1024)
        patch.setattr(digest, "_TILES", 8)
        yield


def bytes_of(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)[: len(data)]


def root_of(*leaves: torch.Tensor) -> torch.Tensor:
    digests = Digests(HOST, [TensorSpec.of(leaf) for leaf in leaves], 1)
    for leaf in leaves:
        digests.add(0, flat_bytes(leaf))
    digests.end()
    return digests.roots[0]


@given(st.integers(0, 1 << 40))
def test_tiles_are_few_and_a_power_of_two(nbytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "_TILE_BYTES", 64 << 10)
        patch.setattr(digest, "_TILES", 4096)
        step = tile_bytes(nbytes)
    assert step >= 64 << 10
    assert step & (step - 1) == 0
    assert -(-nbytes // step) <= 4096
    assert step == 64 << 10 or nbytes / step > 1024


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=3), st.integers(1, 40), st.randoms())
def test_pieces_have_the_hash_of_the_whole(sizes: list[int], part: int, rng: random.Random) -> None:
    leaves = [bytes_of(rng.randbytes(size)) for size in sizes]
    passing, step = Passing(HOST, [TensorSpec.of(leaf) for leaf in leaves]), 256 * part
    pieces = [
        (number, first, leaf[first : first + step])
        for number, leaf in enumerate(leaves)
        for first in range(0, leaf.numel(), step)
    ]
    assert [at for *at, _ in passing.through(pieces)] == [at for *at, _ in pieces]
    assert torch.equal(passing.root(), root_of(*leaves))


@given(st.integers(1, 20_000), st.randoms())
def test_another_bit_another_place_and_another_size_are_another_hash(size: int, rng: random.Random) -> None:
    data = rng.randbytes(size)
    at = rng.randrange(size)
    other = bytearray(data)
    other[at] ^= 1 << rng.randrange(8)
    hashes = [data, bytes(other), data + b"\0", data[:-1]]
    if size > 2048:
        hashes.append(data[1024:2048] + data[:1024] + data[2048:])  # tiles that change places
    assert len({tuple(root_of(bytes_of(each)).tolist()) for each in hashes}) == len(set(hashes))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64])
def test_a_part_of_a_larger_tensor_has_the_hash_of_its_bytes(dtype: torch.dtype) -> None:
    whole = torch.arange(5000).to(dtype)
    assert torch.equal(root_of(whole[3:4003]), root_of(whole[3:4003].clone()))


@given(st.lists(st.lists(st.integers(0, 9_000), min_size=1, max_size=3), min_size=2, max_size=4), st.randoms())
def test_outputs_may_have_other_sizes_than_were_expected(sizes: list[list[int]], rng: random.Random) -> None:
    """Other inputs may give larger outputs, or smaller ones: each has its own hash all the same."""
    outputs = [[bytes_of(rng.randbytes(size)) for size in each] for each in sizes]
    digests = Digests(HOST, [TensorSpec.of(leaf) for leaf in outputs[0]], len(outputs))
    for turn, leaves in enumerate(outputs):
        for leaf in leaves:
            digests.add(turn, leaf)
    digests.end()
    for turn, leaves in enumerate(outputs):
        assert torch.equal(digests.roots[turn], root_of(*leaves))


def test_outputs_are_told_apart_by_their_turn_and_a_seal_tells_one_bit() -> None:
    digests = Digests(HOST, [TensorSpec("float32", (4,))], 3)
    for turn in range(3):
        digests.add(turn, flat_bytes(torch.full((4,), float(turn % 2))))
    digests.end()
    assert torch.equal(digests.roots[0], digests.roots[2])
    assert not torch.equal(digests.roots[0], digests.roots[1])
    other = digests.roots.clone()
    other[2, 1] ^= 1
    assert seal(digests.roots) == seal(digests.roots.clone())
    assert seal(digests.roots) != seal(other)
    assert len(seal(Digests(HOST, [], 0).roots)) == 16
