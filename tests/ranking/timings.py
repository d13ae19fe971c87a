"""Timings as a grading makes them, from random samples."""

from __future__ import annotations

import numpy as np

from harness.clock.stats import compare_speed, median_interval, ratio_interval, widened, widened_ratio
from harness.report import Measurement, Timing


def timing(
    candidate_us: float, reference_us: float, *, seed: int, blocks: int = 8, calls: int = 10, clock_us: float = 0.0
) -> Timing:
    """Samples of 2 % around both times, of which blocks share a half; `clock_us` is not known of the clock."""
    noise = np.random.default_rng(seed)

    def draw(us: float) -> list[list[float]]:
        shared = us * (1 + 0.01 * noise.standard_normal((blocks, 1)))
        return (shared + 0.01 * us * noise.standard_normal((blocks, calls))).tolist()  # type: ignore[no-any-return]

    ours, theirs = draw(candidate_us), draw(reference_us)
    measured = [_measured(side, clock_us) for side in (ours, theirs)]
    speedup = measured[1].median_us / measured[0].median_us
    interval = widened_ratio(ratio_interval(theirs, ours), clock_us / candidate_us)
    return Timing(
        candidate=measured[0],
        reference=measured[1],
        speedup=speedup,
        speedup_ci95=interval,
        comparison=compare_speed(interval),
        stopped_because="made up",
    )


def _measured(blocks: list[list[float]], clock_us: float) -> Measurement:
    samples = [sample for block in blocks for sample in block]
    median = float(np.median(samples))
    return Measurement(
        median_us=median,
        ci95_us=widened(median_interval(blocks), median, clock_us),
        mean_us=float(np.mean(samples)),
        min_us=min(samples),
        samples_us=samples,
        block_sizes=[len(block) for block in blocks],
        method="made up",
    )
