"""The figures of a batch as pure functions: pass@k, fast_p, and a geometric mean with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from harness.clock.stats import CONFIDENCE, NOTHING_KNOWN, RESAMPLES, Interval, student


def pass_at_k(samples: int, right: int, k: int) -> float | None:
    """The chance that at least one of k samples, drawn from the `samples` there are, is right; None for k > samples.

    The unbiased estimator 1 - C(n - c, k) / C(n, k) of Chen et al., Evaluating Large Language Models Trained on Code
    (2021, arXiv 2107.03374), section 2.1, which 1 - (1 - c/n)^k is not.
    """
    if not 0 <= right <= samples or k < 1:
        raise ValueError(f"no pass@{k} of {right} right among {samples}")
    if k > samples:
        return None
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def fast_p(speedups: Sequence[float | None], p: float) -> float | None:
    """The share of all submissions that are right and more than `p` times as fast as the reference.

    None in `speedups` is a submission that is not right, or was not timed. With p = 0 this is the share of those right
    and timed. As in Ouyang et al., KernelBench (2025, arXiv 2502.10517), section 3. None where there are none.
    """
    if not speedups:
        return None
    return sum(1 for speedup in speedups if speedup is not None and speedup > p) / len(speedups)


def geometric_mean(values: Sequence[float]) -> float | None:
    """exp of the mean logarithm; None for no values, 0 where one of them is 0."""
    if not values:
        return None
    if min(values) < 0:
        raise ValueError("a geometric mean of values below 0")
    if min(values) == 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def geometric_mean_interval(groups: Sequence[Sequence[float]], *, resamples: int = RESAMPLES) -> Interval:
    """95 % interval of the geometric mean of all values, by drawing groups again with all that is in them.

    A group is a problem: the speedups of its submissions have much in common, so they are no independent values. A
    single group is taken apart into its values. Percentiles of so few draws are too narrow, which the same factor makes
    good as for times (clock/stats.py). Values are above 0. Repeatable: the draws are always the same.
    """
    units = [np.log(np.asarray(group, dtype=np.float64)) for group in groups if len(group)]
    if len(units) == 1:
        units = list(units[0].reshape(-1, 1))
    count = len(units)
    if count < 2:
        return NOTHING_KNOWN
    sums = np.array([unit.sum() for unit in units])
    sizes = np.array([len(unit) for unit in units])
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=resamples)
    means = (drawn @ sums) / (drawn @ sizes)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = (float(each) for each in np.percentile(means, [tail, 100 - tail]))
    middle = float(sums.sum() / sizes.sum())
    stretch = math.sqrt(count / (count - 1)) * student(count - 1) / NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    # With two groups the factor is so large that the end may be beyond what a float holds.
    lowest, highest = middle - stretch * max(0.0, middle - low), middle + stretch * max(0.0, high - middle)
    return math.exp(max(lowest, -700.0)), math.exp(highest) if highest < 700 else math.inf
