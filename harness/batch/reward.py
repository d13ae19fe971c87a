"""What a report is worth to a program that learns from it: a number between 0 and 1.

    not accepted                       0
    accepted, not timed or not faster  RIGHT
    accepted and faster                RIGHT + (1 - RIGHT) * log(s) / log(BEST), at most 1

s is the lower end of the speedup's 95 % interval: what luck or a noisy device adds to the median is not rewarded.
Logarithmic, so that twice as fast is worth the same wherever one stands.

It is made of the verdict and of figures that the grader measured. Messages, logs and diagnostics hold text that a
submission had a hand in, and have no part in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.report import Report, Verdict

RIGHT = 0.2
"""For being right. Of the whole not more than this, or there would be little to gain by being fast."""
BEST = 16.0
"""The speedup from which on there is nothing more to gain: beyond it a reference is slow rather than a kernel good."""
_OURS = (Verdict.JUDGE_ERROR, Verdict.UNSTABLE)


@dataclass(frozen=True)
class Reward:
    """What a report is worth."""

    value: float
    """Between 0 and 1."""
    counts: bool
    """False where the grading says nothing of the submission (`judge_error`, `unstable`): to be left out or repeated,
    not to be learnt from. The value is 0 then."""
    right: bool
    """Whether it was accepted."""
    speedup: float | None
    """The lower end of the interval that the value was made from; None where nothing was timed, or nothing is known."""


def reward(report: Report) -> Reward:
    """The reward of a report; always the same for the same verdict and figures."""
    if report.verdict in _OURS:
        return Reward(0.0, counts=False, right=False, speedup=None)
    if not report.accepted:
        return Reward(0.0, counts=True, right=False, speedup=None)
    score = report.score
    low = None if score is None else score.speedup_ci95[0]
    if low is None or not math.isfinite(low) or low <= 0:
        return Reward(RIGHT, counts=True, right=True, speedup=None)
    share = min(1.0, max(0.0, math.log(low) / math.log(BEST)))
    return Reward(RIGHT + (1.0 - RIGHT) * share, counts=True, right=True, speedup=low)
