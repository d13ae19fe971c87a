"""Statistics of samples: medians, their confidence intervals, and the interval of a ratio of medians.

Samples come in blocks, taken one after another; samples of one block share what the device was doing at the time, so
resampling draws whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000
CONFIDENCE = 0.95


def median_interval(blocks: Sequence[Sequence[float]], *, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Percentile bootstrap interval (95 %) of the median of all samples, resampling blocks and samples within them.

    Two-level bootstrap after Davison and Hinkley, Bootstrap Methods and their Application (1997), section 3.8. The
    generator is fixed: the same samples always give the same interval.
    """
    return _percentiles(_bootstrap_medians(blocks, resamples, np.random.default_rng(0)))


def ratio_interval(
    numerator: Sequence[Sequence[float]], denominator: Sequence[Sequence[float]], *, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The same for the ratio of two medians, both resampled."""
    above = _bootstrap_medians(numerator, resamples, np.random.default_rng(1))
    below = _bootstrap_medians(denominator, resamples, np.random.default_rng(2))
    return _percentiles(above / below)


def relative_half_width(interval: tuple[float, float]) -> float:
    """Half of an interval's width over its middle."""
    low, high = interval
    return (high - low) / (high + low) if high + low > 0 else 0.0


def _bootstrap_medians(
    blocks: Sequence[Sequence[float]], resamples: int, random: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks if len(block)]
    if not arrays:
        raise ValueError("no samples")
    medians = np.empty(resamples)
    for turn in range(resamples):
        chosen = random.integers(0, len(arrays), len(arrays))
        drawn = [arrays[block][random.integers(0, len(arrays[block]), len(arrays[block]))] for block in chosen]
        medians[turn] = np.median(np.concatenate(drawn))
    return medians


def _percentiles(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
