"""Masks on inputs: off again with their key, and nothing to be read without it."""

from __future__ import annotations

import pytest
import torch

from harness.wire.mask import HostMasker
from harness.wire.mask import mask as put_on
from harness.wire.mask import masked as under_mask

LEAVES = {
    "floats": lambda: torch.randn(7, 5),
    "transposed": lambda: torch.randn(6, 4).t(),
    "bools": lambda: torch.rand(13) > 0.5,
    "halves": lambda: torch.randn(3).half(),
    "large integers": lambda: torch.arange(1000),
    "complex": lambda: torch.randn(5, dtype=torch.complex64),
    "one": lambda: torch.tensor(1.5),
    "none": lambda: torch.empty(0, 3),
}

HOST = HostMasker()


def mask(leaves: list[torch.Tensor], key: int) -> None:
    put_on(leaves, HOST.key(key), HOST)


@pytest.mark.parametrize("name", LEAVES)
def test_a_mask_comes_off_with_its_key_alone(name: str) -> None:
    leaf = LEAVES[name]()
    before = leaf.clone()
    mask([leaf], 5)
    if leaf.numel() > 1:
        assert not torch.equal(leaf.view(torch.uint8) if leaf.dtype is torch.bool else leaf, before)
    mask([leaf], 5)
    assert torch.equal(leaf, before)


def test_equal_tensors_are_not_equal_under_their_masks() -> None:
    leaves = [torch.zeros(64, dtype=torch.int32) for _ in range(2)]
    mask(leaves, 9)
    assert not torch.equal(*leaves)
    assert leaves[0].unique().numel() > 60


def test_all_of_a_key_counts_and_every_bit_is_under_the_mask() -> None:
    def under(key: int) -> torch.Tensor:
        leaf = torch.zeros(4096, dtype=torch.int64)
        mask([leaf], key)
        return leaf

    assert not torch.equal(under(12345), under(12345 + (77 << 32)))
    for bit in range(64):
        assert 1800 < int(((under(3) >> bit) & 1).sum()) < 2300


def test_tensors_that_share_memory_or_have_gaps_are_masked_each_for_itself() -> None:
    x = torch.randn(6, 4)
    value = (x, x, x[:, ::2], torch.tensor(2.0).expand(3), x.t(), "text")
    hidden = under_mask(value, 77, HOST)
    assert torch.equal(x, value[0])  # ours is as it was
    leaves = [leaf for leaf in hidden if isinstance(leaf, torch.Tensor)]
    assert not torch.equal(leaves[0], leaves[1])
    mask(leaves, 77)
    assert all(torch.equal(*pair) for pair in zip(leaves, value[:5], strict=True))
    assert hidden[5] == "text"
