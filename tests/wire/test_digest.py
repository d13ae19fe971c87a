"""Seals on outputs: the same however the bytes come, and another one for another byte."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.wire.digest import COLUMNS, WIDE, Passing, folded, seal, wide_sums
from harness.wire.transfer import flat_bytes


def sums_of(data: bytes) -> torch.Tensor:
    out = torch.zeros(WIDE, dtype=torch.int64)
    wide_sums(torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte(), out)
    return folded(out)


def by_hand(data: bytes) -> list[int]:
    data += bytes(-len(data) % 4)
    words = [int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), 4)]
    return [sum(words[column::COLUMNS]) for column in range(COLUMNS)]


@given(st.integers(0, 100_000), st.randoms())
def test_the_sums_are_those_of_the_columns(size: int, random: object) -> None:
    data = random.randbytes(size)  # type: ignore[attr-defined]
    assert sums_of(data).tolist() == by_hand(data)


@given(st.integers(0, 100_000), st.integers(1, 9), st.randoms())
def test_pieces_add_up_to_the_whole(size: int, part: int, random: object) -> None:
    data = random.randbytes(size)  # type: ignore[attr-defined]
    whole = torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)[:size]
    step = 256 * part
    passing = Passing(2, torch.device("cpu"))
    pieces = [(1, first, whole[first : first + step]) for first in range(0, size, step)]
    assert [first for _, first, _ in passing.through(pieces)] == list(range(0, size, step))
    assert passing.sums()[1].tolist() == by_hand(data)
    assert not passing.sums()[0].any()


@given(st.integers(0, 9000), st.integers(0, 9), st.sampled_from([torch.uint8, torch.bfloat16, torch.float64]))
def test_a_part_of_a_larger_tensor_has_the_sums_of_its_bytes(count: int, begins: int, dtype: torch.dtype) -> None:
    whole = torch.arange(count + begins).to(dtype)
    out = torch.zeros(WIDE, dtype=torch.int64)
    wide_sums(flat_bytes(whole[begins:]), out)
    assert folded(out).tolist() == by_hand(whole[begins:].clone().view(torch.uint8).numpy().tobytes())


def test_a_seal_tells_one_bit() -> None:
    sums = torch.arange(3 * COLUMNS).reshape(3, 1, COLUMNS)
    other = sums.clone()
    other[2, 0, -1] += 1
    assert seal(sums) == seal(sums.clone())
    assert seal(sums) != seal(other)


def test_sums_are_exact() -> None:
    """Modulo a power of two, any output could be made to fit by changing a few of its elements."""
    large = torch.full((300 * WIDE,), 2**31 - 1, dtype=torch.int32)
    out = torch.zeros(WIDE, dtype=torch.int64)
    wide_sums(flat_bytes(large), out)
    assert set(out.tolist()) == {300 * (2**31 - 1)}
