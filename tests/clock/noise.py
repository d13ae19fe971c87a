"""Noise as devices and machines make it: each kind gives blocks of samples, and the median that is behind them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]
Kind = Callable[[np.random.Generator, int, int], tuple[Samples, float]]

RECORDED: Samples = np.asarray(json.loads((Path(__file__).parent / "recorded_cpu_noise.json").read_text())["blocks"])


def _tail_of_normal(share: float) -> float:
    """Where a normal's median moves when `share` of the samples is thrown far to the right."""
    return NormalDist().inv_cdf(0.5 / (1 - share))


def independent(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """Each sample for itself."""
    return random.normal(100, 1, (blocks, calls)), 100.0


def by_block(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """Each block has an offset of its own, as large as the noise within it."""
    return random.normal(100, 1, (blocks, calls)) + random.normal(0, 1, (blocks, 1)), 100.0


def only_by_block(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """Samples of one block are nearly equal, blocks are not."""
    return random.normal(100, 0.1, (blocks, calls)) + random.normal(0, 1, (blocks, 1)), 100.0


def heavy_tail(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """No variance at all: Student's t with 1.5 degrees of freedom."""
    return 100 + random.standard_t(1.5, (blocks, calls)), 100.0


def spikes(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """One sample in twenty takes up to twenty times as long."""
    samples = random.normal(100, 0.5, (blocks, calls))
    hit = random.random((blocks, calls)) < 0.05
    return np.where(hit, samples * random.uniform(1.5, 20, samples.shape), samples), 100 + 0.5 * _tail_of_normal(0.05)


def bimodal(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """Two groups, far apart and nearly as large: the median is at the edge of one."""
    samples = random.normal(100, 0.3, (blocks, calls)) + 8 * (random.random((blocks, calls)) < 0.48)
    return samples, 100 + 0.3 * _tail_of_normal(0.48)


def coarse_clock(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """A clock that counts in half microseconds."""
    return np.round(random.normal(5.13, 0.3, (blocks, calls)) / 0.5) * 0.5, 5.13


def fine_clock(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """A clock that counts in steps of 32 ns, wider than the noise."""
    return np.round(random.normal(5.013, 0.02, (blocks, calls)) / 0.032) * 0.032, 5.013


def recorded(random: np.random.Generator, blocks: int, calls: int) -> tuple[Samples, float]:
    """Blocks of a real machine, picked from a long recording whose median stands for the truth."""
    chosen = RECORDED[random.choice(len(RECORDED), blocks, replace=False)]
    # Any of a block's calls: its first ones are slower, and the truth is that of all.
    return random.permuted(chosen, axis=1)[:, :calls], float(np.median(RECORDED))


KINDS: tuple[Kind, ...] = (
    independent,
    by_block,
    only_by_block,
    heavy_tail,
    spikes,
    bimodal,
    coarse_clock,
    fine_clock,
    recorded,
)
STEPS = {coarse_clock: 0.5, fine_clock: 0.032}
"""What a clean process's samples tell of those clocks, microseconds."""
