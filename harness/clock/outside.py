"""The outside clock: the grader's own wall clock over loops that the worker runs.

    T(n)   wall time of a loop of n turns, from the order to the answer
    slope  (T(2n) - T(n)) / n: the time of one turn, without what every loop costs once

A turn of a loop with calls, less a turn of an empty loop that a clean process runs, is the time of a call that nothing
in the submission's process can make smaller. It is held against the mean of the inside readings of the same calls. What
lies between the two clocks even when nobody cheats (gaps between launches) is measured with a probe, a call of our own
in the clean process, and taken off; how far apart they may be comes from the spread of the slopes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_MAD_TO_SIGMA = 1.4826
"""Of a normal distribution: standard deviation over median absolute deviation."""
_MEDIAN_EFFICIENCY = 1.2533
"""Standard error of a median over that of a mean, for normal samples: sqrt(pi / 2)."""
_SIGMAS = 4.0
"""Standard errors that the clocks may be apart."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its standard error, both in microseconds."""

    us: float
    error_us: float

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.us - other.us, math.hypot(self.error_us, other.error_us))


@dataclass(frozen=True)
class Calibration:
    """What a clean process on this device says about the clocks."""

    empty: Estimate
    """One turn of an empty loop."""
    bias: Estimate
    """Outside less inside for the probe: what honest clocks are apart."""


@dataclass(frozen=True)
class Agreement:
    """The two clocks over the same calls."""

    outside_us: float
    """The time of a call by our own clock."""
    inside_us: float
    """The time of a call by the worker's."""
    tolerance_us: float
    """How far the outside may be above the inside."""
    calls: int
    """Calls that both timed."""

    @property
    def confirmed(self) -> bool:
        """Whether our clock agrees that a call takes no longer than was said."""
        return self.outside_us - self.inside_us <= self.tolerance_us


def slope(once_s: Sequence[float], twice_s: Sequence[float], turns: int) -> Estimate:
    """The time of a turn from walls over `turns` and twice as many, each repeated; seconds in, microseconds out.

    What disturbs a wall only ever makes it longer, so the shortest of each length counts; how far the second shortest
    is from it says how sure that is.
    """
    short, long = sorted(once_s), sorted(twice_s)
    apart = math.hypot(*(walls[1] - walls[0] if len(walls) > 1 else walls[0] for walls in (short, long)))
    return Estimate((long[0] - short[0]) / turns * 1e6, apart / turns * 1e6)


def estimate(values: Sequence[float]) -> Estimate:
    """The median of repeated measurements and its standard error."""
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return Estimate(middle, _MEDIAN_EFFICIENCY * _MAD_TO_SIGMA * deviation / math.sqrt(len(values)))


def agreement(turn: Estimate, inside: Estimate, calibration: Calibration, calls: int) -> Agreement:
    """Hold the clocks against each other: `turn` of the loop with calls, `inside` the mean reading of a call."""
    outside = turn - calibration.empty - calibration.bias
    apart = outside - inside
    return Agreement(
        outside_us=outside.us,
        inside_us=inside.us,
        tolerance_us=_SIGMAS * apart.error_us,
        calls=calls,
    )
