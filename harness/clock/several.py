"""One time and one speedup from several workloads, and their intervals; made from nothing but their timings.

    geometric_mean   time    exp(1/n sum log t_i)    speedup    exp(1/n sum log(r_i / t_i))
    mean             time    1/n sum t_i             speedup    sum r_i / sum t_i

t_i and r_i are what is reported of candidate and reference with workload i: medians, or means of those of several
processes, by which what is drawn around the median of all samples is moved. The interval is a bootstrap over blocks:
in each of 2000 resamples every workload's blocks are drawn again, workloads independently of each other and both sides
of a workload as pairs, and the mean is made anew; the 2.5 and 97.5 % quantiles are moved from the mean as for a single
median (stats.py), by the factor of the workload that has the fewest blocks.

Two things no resample of blocks shows, so each end is moved farther for them. In logarithms, with w_i the weight of a
workload (1/n, or its share of the total time):

- what each workload's own interval says of its samples, o_i: the order statistics, and the clock's steps. The end is at
  least sqrt(sum (w_i o_i)^2) away.
- what is not known of the clock itself, c_i. It is the same in all of them and no mean makes it less, so
  sum w_i c_i is added, as to a single median: as the other leg of a right angle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.clock.stats import (
    NOTHING_KNOWN,
    Interval,
    compare_speed,
    drawn_medians,
    median_interval,
    median_of,
    percentile_interval,
    ratio_interval,
)
from harness.load.spec import Mean
from harness.report import Measurement, RankedScore, Timing

_FAR = 20.0
"""Distance, in logarithms, of an end that is at 0."""


def ranked(timings: Sequence[Timing], by: Mean) -> RankedScore:
    """The score of the timings of several workloads, in a fixed order. Repeatable: the draws are always the same."""
    times = [timing.candidate.median_us for timing in timings]
    sides = [(blocks(timing.reference), blocks(timing.candidate)) for timing in timings]
    drawn = [drawn_medians(*pair, seed=number) for number, pair in enumerate(sides)]
    moved = [_moved(timing.candidate) for timing in timings]
    above = np.stack([tops for tops, _ in drawn])
    below = np.stack([factor * bottoms for (_, bottoms), factor in zip(drawn, moved, strict=True)])
    with np.errstate(divide="ignore", invalid="ignore"):  # of a time of 0, which happens to calls that do nothing
        if by == "geometric_mean":
            weights = [1 / len(timings)] * len(timings)
            speedup = float(_mean([timing.speedup for timing in timings], by))
            ratios = _mean(above / below, by)
        else:
            weights = [time / max(sum(times), 1e-9) for time in times]
            speedup = sum(timing.reference.median_us for timing in timings) / max(sum(times), 1e-9)
            ratios = above.sum(axis=0) / below.sum(axis=0)
        time_us, means = float(_mean(times, by)), _mean(below, by)
    fewest = min(len(side) for pair in sides for side in pair)
    time_parts = [
        (own.ci95_us, _times(factor, median_interval(candidate, step=own.step_us)), own.median_us)
        for own, (_, candidate), factor in zip([timing.candidate for timing in timings], sides, moved, strict=True)
    ]
    speed_parts = [
        (
            timing.speedup_ci95,
            _times(1 / factor, ratio_interval(*pair, steps=(timing.reference.step_us, timing.candidate.step_us))),
            timing.speedup,
        )
        for timing, pair, factor in zip(timings, sides, moved, strict=True)
    ]
    speedup_ci95 = _interval(speedup, ratios, fewest, speed_parts, weights)
    floors = [timing.floor_us for timing in timings if timing.floor_us is not None]
    return RankedScore(
        by=by,
        time_us=time_us,
        time_ci95_us=_interval(time_us, means, fewest, time_parts, weights),
        speedup=speedup,
        speedup_ci95=speedup_ci95,
        comparison=compare_speed(speedup_ci95),
        fraction_of_floor=float(_mean(floors, by)) / time_us if len(floors) == len(timings) and time_us > 0 else None,
    )


def _moved(measured: Measurement) -> float:
    """The time that is reported over the median of all samples, which draws are made around: of several processes it is
    the mean of their medians."""
    pooled_us = median_of(measured.samples_us, measured.step_us) if measured.process_medians_us else 0.0
    return measured.median_us / pooled_us if min(pooled_us, measured.median_us) > 0 else 1.0


def _times(factor: float, interval: Interval) -> Interval:
    return interval[0] * factor, interval[1] * factor


def blocks(measured: Measurement) -> list[list[float]]:
    """The samples, block by block."""
    ends = np.cumsum([0, *(measured.block_sizes or [len(measured.samples_us)])]).tolist()
    return [measured.samples_us[low:high] for low, high in itertools.pairwise(ends) if high > low]


def _interval(
    middle: float,
    drawn: npt.NDArray[np.float64],
    fewest: int,
    parts: Sequence[tuple[Interval, Interval, float]],
    weights: Sequence[float],
) -> Interval:
    """`parts`, by workload: its interval as reported, the same from its samples alone, and what lies in both."""
    if not (middle > 0 and np.isfinite(drawn).all() and drawn.min() > 0) or any(
        math.isinf(interval[1]) for interval, _, _ in parts
    ):
        return NOTHING_KNOWN
    found = percentile_interval(drawn, middle, fewest) if fewest > 1 else (middle, middle)
    low, high = (
        math.hypot(
            max(_apart(found[end], middle), math.hypot(*(w * _of_samples(part, end) for w, part in weighted))),
            math.fsum(w * _of_clock(part, end) for w, part in weighted),
        )
        for weighted in [list(zip(weights, parts, strict=True))]
        for end in (0, 1)
    )
    return middle * math.exp(-low), middle * math.exp(high)


def _of_samples(part: tuple[Interval, Interval, float], end: int) -> float:
    reported, alone, value = part
    return min(_apart(reported[end], value), _apart(alone[end], value))


def _of_clock(part: tuple[Interval, Interval, float], end: int) -> float:
    return math.sqrt(max(0.0, _apart(part[0][end], part[2]) ** 2 - _of_samples(part, end) ** 2))


def _apart(end: float, value: float) -> float:
    return min(_FAR, abs(math.log(end / value))) if end > 0 and value > 0 else _FAR


def _mean(values: Any, by: Mean) -> Any:
    """Over the first dimension."""
    array = np.asarray(values, dtype=np.float64)
    return array.mean(axis=0) if by == "mean" else np.exp(np.log(array).mean(axis=0))
