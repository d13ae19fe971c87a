"""The figures of a batch as pure functions: pass@k, fast_p, and a geometric mean with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from harness.clock.stats import CONFIDENCE, NOTHING_KNOWN, RESAMPLES, Interval, student

_NORMAL = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
"""1.96."""


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


def log_deviation(interval: Interval) -> float:
    """Standard deviation of a value's logarithm whose 95 % interval this is: (ln high - ln low) / (2 * 1.96).

    Infinite for an end at 0 or infinity.
    """
    low, high = interval
    if low <= 0 or math.isinf(high):
        return math.inf
    return (math.log(high) - math.log(low)) / (2 * _NORMAL)


def geometric_mean_interval(
    groups: Sequence[Sequence[float]],
    deviations: Sequence[Sequence[float]] | None = None,
    *,
    resamples: int = RESAMPLES,
) -> Interval:
    """95 % interval of the geometric mean of all values, by drawing groups again with all that is in them.

    A group is a problem: the speedups of its submissions have much in common, so they are no independent values. A
    single group is taken apart into its values. `deviations` has, for each value, the standard deviation of its
    logarithm (`log_deviation`): what measuring it left open. Without it the values are taken to be exact.

    Draw d takes group g n_dg times, n_d from the multinomial distribution, and gives value i the error e_di from
    N(0, deviation_i), the same in each copy. With x_i the logarithms, N_d the values drawn, m the mean of all x_i:

        m_d = m + f * (sum_g n_dg * sum_(i in g) x_i / N_d - m) + sum_g n_dg * sum_(i in g) e_di / N_d

    and the interval is exp of the 2.5 and 97.5 % points of the m_d. Percentiles of few groups are too narrow, which
    f = sqrt(k / (k - 1)) * t_(k - 1) / 1.96 of k groups makes good as for times (clock/stats.py). Nothing is known, 0
    to infinity, of a single value, or where a deviation is infinite. Values are above 0. Repeatable: the draws are
    always the same.
    """
    units = [np.log(np.asarray(group, dtype=np.float64)) for group in groups if len(group)]
    if deviations is None:
        spreads = [np.zeros(len(unit)) for unit in units]
    else:
        spreads = [np.asarray(group, dtype=np.float64) for group in deviations if len(group)]
    if len(units) == 1:
        units, spreads = list(units[0].reshape(-1, 1)), list(spreads[0].reshape(-1, 1))
    count = len(units)
    if count < 2 or not all(np.isfinite(spread).all() for spread in spreads):
        return NOTHING_KNOWN
    sums = np.array([unit.sum() for unit in units])
    sizes = np.array([len(unit) for unit in units])
    random = np.random.default_rng(0)
    drawn = random.multinomial(count, np.full(count, 1 / count), size=resamples)
    values_drawn = drawn @ sizes
    middle = float(sums.sum() / sizes.sum())
    stretch = math.sqrt(count / (count - 1)) * student(count - 1) / _NORMAL
    means = middle + stretch * ((drawn @ sums) / values_drawn - middle)
    # Independent errors add up to one for each group.
    together = np.array([math.sqrt(float((spread**2).sum())) for spread in spreads])
    means += (drawn * random.normal(size=drawn.shape) * together).sum(axis=1) / values_drawn
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = (float(each) for each in np.percentile(means, [tail, 100 - tail]))
    # With two groups the factor is so large that the end may be beyond what a float holds.
    lowest, highest = min(middle, low), max(middle, high)
    return math.exp(max(lowest, -700.0)), math.exp(highest) if highest < 700 else math.inf
