"""Statistics of samples: confidence intervals of medians and of a ratio of medians, and what a ratio says.

Samples come in blocks, taken one after another. Samples of one block share what the device was doing at the time, so
the block is what is drawn again: Davison and Hinkley, Bootstrap Methods and their Application (1997), section 3.8, who
draw groups and leave what is within them as it is.

A percentile interval from few blocks is too narrow, by sqrt((K - 1) / K) and by the normal quantile standing where
Student's for K - 1 degrees of freedom should. Both are made good by a factor on the distance of each end from the
median (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 4.1, who moves the percentiles for the
same two reasons; with four blocks no percentile reaches far enough, a factor does).

A median's interval also spans the order statistics that hold it in 95 % of independent samples of any distribution
whatever (David and Nagaraja, Order Statistics, 2003, section 7.1): where samples fall into two groups, and the median
into the gap between them, resampling alone is too sure of itself.

Everything is repeatable: the same samples always give the same interval.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

Blocks = Sequence[Sequence[float]]
Interval = tuple[float, float]
Comparison = Literal["faster", "slower", "same", "undecided"]

RESAMPLES = 2000
CONFIDENCE = 0.95
SAME_WITHIN = 0.02
"""Share by which two times may differ and still be called the same."""
NOTHING_KNOWN: Interval = (0.0, math.inf)
"""Interval of something that was seen once: one sample says nothing of its own error."""

_COARSEST_STEP_US = 0.5
"""The resolution of CUDA's events as cudaEventElapsedTime documents it; a wider gap between samples is noise."""
_STEP_SHARE = 0.02
"""Share of the samples that has to sit on a value for it to count as one of the clock's steps."""
_T_SMALL = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645}
"""Student's 97.5 % quantile where the expansion below is off by more than 0.1 %."""


def median_interval(blocks: Blocks, *, resamples: int = RESAMPLES, step: float = 0.0) -> Interval:
    """95 % interval of the median of all samples, in their unit, drawing whole blocks.

    One block alone is taken apart into its samples. Half a `step` of the clock is added at both ends: a median of equal
    readings is known no better.
    """
    units = _units(blocks)
    count = len(units)
    pooled = np.concatenate(units)
    if len(pooled) == 1:
        return NOTHING_KNOWN
    middle = float(np.median(pooled))
    low, high = percentile_interval(_drawn_medians(units, _draws(count, resamples)), middle, count)
    if (rank := _outer_rank(len(pooled))) is not None:
        ordered = np.sort(pooled)
        low, high = min(low, float(ordered[rank])), max(high, float(ordered[-1 - rank]))
    return max(0.0, low - step / 2), high + step / 2


def ratio_interval(
    numerator: Blocks, denominator: Blocks, *, resamples: int = RESAMPLES, steps: tuple[float, float] = (0.0, 0.0)
) -> Interval:
    """The same for the ratio of two medians, `steps` being those of either's clock.

    As many blocks on both sides are pairs, taken side by side in time, and are drawn as pairs: what slowed both down
    alike (drift, a step of the clock) then cancels, as it does in the ratio itself. The interval of the inverse is the
    inverse interval.
    """
    above, below = _units(numerator), _units(denominator)
    if min(sum(map(len, above)), sum(map(len, below))) == 1:
        return NOTHING_KNOWN
    tops, bottoms = _drawn_sides(above, below, resamples, 0)
    top, bottom = float(np.median(np.concatenate(above))), float(np.median(np.concatenate(below)))
    if min(top, bottom, tops.min(), bottoms.min()) <= 0:
        # A time of nothing can't be divided by; it happens to calls that do nothing.
        return NOTHING_KNOWN
    low, high = percentile_interval(tops / bottoms, top / bottom, min(len(above), len(below)))
    unknown = steps[0] / 2 / top + steps[1] / 2 / bottom
    return low * math.exp(-unknown), high * math.exp(unknown)


def drawn_medians(
    numerator: Blocks, denominator: Blocks, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The medians of both sides in each resample, drawn as for `ratio_interval`; other seeds are independent draws."""
    return _drawn_sides(_units(numerator), _units(denominator), resamples, seed)


def percentile_interval(drawn: npt.NDArray[np.float64], middle: float, count: int) -> Interval:
    """95 % interval of something above 0 from its values in resamples of `count` blocks, `middle` its own value."""
    low, high = _percentiles(drawn)
    return _stretched(low, middle, high, _stretch(count)) if count > 1 else NOTHING_KNOWN


def median_of(samples: Sequence[float], step: float = 0.0) -> float:
    """The median; of samples that come in steps, as if each were spread over its step (the median of grouped data).

    The plain median of such samples is a step or lies between two, whatever share of them is on either side.
    """
    return float(statistics.median_grouped(samples, step)) if step else float(statistics.median(samples))


def widened(interval: Interval, median: float, half_width: float) -> Interval:
    """The interval of a median from which something was taken off that is itself known to +- `half_width` only."""
    low, high = interval
    return (
        max(0.0, median - math.hypot(max(0.0, median - low), half_width)),
        median + math.hypot(max(0.0, high - median), half_width),
    )


def widened_ratio(interval: Interval, share: float) -> Interval:
    """The interval of a ratio that is uncertain by a further `share` of itself."""
    low, high = interval
    if low <= 0 or math.isinf(high):
        return interval
    middle = math.sqrt(low * high)
    factor = math.exp(math.hypot(math.log(high / middle), share))
    return middle / factor, middle * factor


def relative_half_width(interval: Interval) -> float:
    """Half of an interval's width over its middle."""
    low, high = interval
    if math.isinf(high):
        return math.inf
    return (high - low) / (high + low) if high + low > 0 else 0.0


def compare_speed(speedup: Interval, *, same_within: float = SAME_WITHIN) -> Comparison:
    """What the interval of the speedup (time of the reference over time of the candidate) allows to say.

    `same` when the whole interval lies within 1 +- `same_within`, also where it does not hold 1: a difference too small
    to matter. `faster` and `slower` when it lies beyond 1 and is not all within that band; else `undecided`.
    """
    low, high = speedup
    if 1 - same_within <= low and high <= 1 + same_within:
        return "same"
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "undecided"


def clock_step(samples: npt.ArrayLike) -> float:
    """The steps in which the clock counts, as far as the samples show them; 0 where they don't.

    Only of a clean process's: who makes its own samples can make up steps, and what they widen. Device events count in
    steps of 32 ns to 0.5 us. Only values that are met again and again are taken for steps: of samples that are all
    different, two are close by chance.
    """
    values, counts = np.unique(np.asarray(samples, dtype=np.float64), return_counts=True)
    often = values[counts >= max(2.0, _STEP_SHARE * float(counts.sum()))]
    if len(often) < 2:
        return 0.0
    step = float(np.diff(often).min())
    return step if step <= 1.01 * _COARSEST_STEP_US else 0.0


def _units(blocks: Blocks) -> list[npt.NDArray[np.float64]]:
    """What is drawn: blocks, or the samples of the only one."""
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks if len(block)]
    if not arrays:
        raise ValueError("no samples")
    return [*arrays[0].reshape(-1, 1)] if len(arrays) == 1 else arrays


def _draws(count: int, resamples: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """How often each of `count` blocks is drawn in each resample: one row a resample."""
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)


def _drawn_sides(
    above: list[npt.NDArray[np.float64]], below: list[npt.NDArray[np.float64]], resamples: int, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    draws = _draws(len(above), resamples, 2 * seed)
    others = draws if len(above) == len(below) else _draws(len(below), resamples, 2 * seed + 1)
    return _drawn_medians(above, draws), _drawn_medians(below, others)


def _drawn_medians(units: list[npt.NDArray[np.float64]], draws: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The median of each resample, without building it.

    All samples are sorted once. How many samples of a resample lie at or below a place in that order is the draws times
    the blocks' running counts there, so each median is found by halving: K * log2(N) steps a resample instead of N.
    """
    pooled = np.concatenate(units)
    owners = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    order = np.argsort(pooled, kind="stable")
    running = np.cumsum(owners[order][:, None] == np.arange(len(units)), axis=0, dtype=np.int64)
    totals = draws @ running[-1]

    def nth(targets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        low = np.zeros(len(draws), dtype=np.int64)
        high = np.full(len(draws), len(pooled) - 1, dtype=np.int64)
        for _ in range(len(pooled).bit_length()):
            middle = (low + high) // 2
            enough = np.einsum("rk,rk->r", draws, running[middle]) >= targets
            high = np.where(enough, middle, high)
            low = np.where(enough, low, np.minimum(middle + 1, high))
        result: npt.NDArray[np.float64] = pooled[order][high]
        return result

    medians: npt.NDArray[np.float64] = (nth((totals + 1) // 2) + nth(totals // 2 + 1)) / 2
    return medians


def _percentiles(values: npt.NDArray[np.float64]) -> Interval:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def _stretched(low: float, middle: float, high: float, factor: float) -> Interval:
    """Both ends farther from the middle, in proportion: times and their ratios are never below nothing."""
    if middle <= 0:
        return 0.0, factor * high
    below, above = min(1.0, low / middle), max(1.0, high / middle)
    return middle * below**factor, middle * above**factor


@functools.lru_cache(maxsize=256)
def _outer_rank(count: int) -> int | None:
    """How many of `count` independent samples may lie outside at either end of an interval that holds the median.

    The median lies below the sample of rank r (from 0) with the chance that at most r of `count` tosses of a coin come
    out heads. None where even the extremes hold it less often than asked: fewer than 6 samples.
    """
    most = int((1 - CONFIDENCE) / 2 * 2**53) * 2**count >> 53
    rank, ways = -1, 0
    while (ways := ways + math.comb(count, rank + 1)) <= most:
        rank += 1
    return rank if rank >= 0 else None


def _stretch(count: int) -> float:
    """sqrt(K / (K - 1)) times Student's quantile over the normal one, for K blocks."""
    return math.sqrt(count / (count - 1)) * student(count - 1) / NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


def student(freedom: int) -> float:
    """97.5 % quantile of Student's t: Abramowitz and Stegun, 26.7.5, for 5 degrees of freedom and more."""
    if freedom in _T_SMALL:
        return _T_SMALL[freedom]
    x = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))
