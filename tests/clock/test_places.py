"""Values lie now here and now there: some room is taken first, as much as is drawn."""

from __future__ import annotations

import pytest
import torch

from harness.worker import memory
from harness.worker.memory import aside

CPU = torch.device("cpu")


def test_of_each_of_the_first_sizes_up_to_fifteen_blocks_are_held() -> None:
    counts = set()
    for _ in range(200):
        held = aside([64, 128, 256, 512, 1024], CPU)
        sizes = [block.nbytes for block in held]
        assert 1024 not in sizes
        counts |= {sizes.count(64)}
    assert counts <= set(range(16))
    assert len(counts) > 8


@pytest.mark.parametrize(("size", "most"), [(256 << 20, 0), (64 << 20, 3), (0, 15)])
def test_of_large_ones_fewer(monkeypatch: pytest.MonkeyPatch, size: int, most: int) -> None:
    asked = []
    monkeypatch.setattr(memory.secrets, "randbelow", lambda below: asked.append(below) or 0)
    assert aside([size], CPU) == []
    assert asked == [most + 1]


def test_where_there_is_little_memory_left_values_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(memory.torch, "empty", none_left)
    monkeypatch.setattr(memory.secrets, "randbelow", lambda below: below - 1)
    assert aside([64], CPU) == []
