"""The outside clock: the grader's own wall clock over loops that the worker runs.

    T(n)      wall time of a loop of n turns, from the order to the answer, which carries a digest of every output
    turn      (T(long) - T(short)) / (long - short): the time of one turn, without what every loop costs once
    overhead  what a turn is more than its call: a turn of the probe in the clean process, less what the probe reads
    outside   turn - overhead: the time of a call by our own clock
    digests   what follows a call in a turn. It depends on the pages that outputs lie in, by a few per cent and from
              process to process; a difference of so much is taken off, as either process's events tell it
    once      T(short) - short * turn: what a loop costs once, nearly the same in all processes
    whole     outside + (once - the probe's) / long: the same from long loops alone. Who holds up short loops makes the
              difference of the two smaller, and this one no smaller

Long and short loops follow each other, and those of the probe those of the submission, since a device's state drifts.

The probe is one kernel that makes outputs like the submission's, in the reference's process, which is clean. It is held
against the mean of the inside readings of the same calls; how far apart they may be comes from the spread of the walls.

Whoever makes walls or readings uneven on purpose must not gain by it. So an error that a submission's own figures show
counts only up to a few times that of the clean process, or a share of the call; loops are held against the median of
single calls, which is reported, not a mean that a few long figures would make good; and walls of single calls are
looked at in the quicker half of them, since only figures below the median make the median smaller.

What could be gained all the same: the overhead has the digests in it. Whoever makes outputs and digests in one go saves
the reading of the outputs that a digest takes, and no more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.clock.stats import median_of

_MAD_TO_SIGMA = 1.4826
"""Of a normal distribution: standard deviation over median absolute deviation."""
_MEDIAN_EFFICIENCY = 1.2533
"""Standard error of a median over that of a mean, for normal samples: sqrt(pi / 2)."""
_SOME = 5
"""Values from which on their median deviation tells how far they are apart."""
_SIGMAS = 4.0
"""Standard errors that the clocks may be apart."""
_DIGESTS = 0.05
"""Share by which digests may differ between two processes; and of the call, which may be the shorter of the two."""
_PROCESSES = 0.01
"""Share of a turn by which loops of two processes may differ for good, so that no repetition shows it. On an H200 those
of the same probe, in the clean process and in the submission's, were up to 0.8 % apart."""
_SHORTER = 8
"""Times that a long loop has the turns of a short one: the further apart they are, the less a wall's own error is over
the turns between them, and the less time the short ones take."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its standard error, both in microseconds."""

    us: float
    error_us: float

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.us + other.us, math.hypot(self.error_us, other.error_us))

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.us - other.us, math.hypot(self.error_us, other.error_us))


@dataclass
class Walls:
    """Pairs of a short and a long loop, by both clocks."""

    long: int
    """Turns of a long one."""
    in_pairs: bool = True
    """Whether each pair gives a turn, and the median of these counts: right for a device of its own, whose state
    drifts. Else the shortest of each length count: right for a CPU, where other work makes any wall longer."""
    short_s: list[float] = field(default_factory=list)
    """Walls of the short ones, seconds."""
    long_s: list[float] = field(default_factory=list)
    """Walls of the long ones."""
    inside_us: list[float] = field(default_factory=list)
    """Mean reading of each loop."""
    digests_us: list[float] = field(default_factory=list)
    """What followed a call in each of the long ones, in the mean."""
    calls: int = 0
    """Turns of all of them."""

    @property
    def short(self) -> int:
        """Turns of a short one."""
        return shorter(self.long)

    def add(self, turns: int, wall_s: float, readings_us: Sequence[float], after_us: float) -> None:
        """Take in a loop of one of the two lengths."""
        if turns == self.short:
            self.short_s.append(wall_s)
        else:
            self.long_s.append(wall_s)
            self.digests_us.append(after_us)
        self.inside_us.append(statistics.fmean(readings_us))
        self.calls += turns

    @property
    def turns_us(self) -> list[float]:
        """The time of a turn by our own clock, of each pair."""
        pairs = zip(self.short_s, self.long_s, strict=True)
        return [(long - short) * 1e6 / (self.long - self.short) for short, long in pairs]

    @property
    def net(self) -> Estimate:
        """The time of a turn without its digest."""
        if self.in_pairs:
            return _of_pairs([turn - digest for turn, digest in zip(self.turns_us, self.digests_us, strict=True)])
        short, long = sorted(self.short_s), sorted(self.long_s)
        more = self.long - self.short
        apart = math.hypot(_apart(short), _apart(long))
        return Estimate((long[0] - short[0]) / more * 1e6 - self.digest_us, apart / more * 1e6)

    @property
    def digest_us(self) -> float:
        """What follows a call in a turn."""
        return statistics.median(self.digests_us)

    @property
    def once(self) -> Estimate:
        """What a loop costs beside its turns."""
        if not self.in_pairs:
            short, net = sorted(self.short_s), self.net
            turn_us = net.us + self.digest_us
            error_us = math.hypot(_apart(short) * 1e6, self.short * net.error_us)
            return Estimate(short[0] * 1e6 - self.short * turn_us, error_us)
        pairs = zip(self.short_s, self.turns_us, strict=True)
        return _of_pairs([short * 1e6 - self.short * turn for short, turn in pairs])

    @property
    def inside(self) -> Estimate:
        """The mean reading of a turn."""
        return estimate(self.inside_us)


@dataclass(frozen=True)
class Singles:
    """What the clean process on this device says about single calls."""

    probe: Estimate
    """What the worker's clock reads for the probe."""
    beside_us: Sequence[float]
    """Walls of probes, less what the worker's clock reads in them, microseconds."""
    offset: Estimate
    """What it reads beside a kernel; its error is how far processes differ in that."""


@dataclass(frozen=True)
class Calibration:
    """What the clean process says about the clocks, for loops and calls like the submission's."""

    alone: Singles
    loops: Walls
    """Of the probe."""

    @property
    def inside_offset(self) -> Estimate:
        """What the worker's clock reads in a loop beside the call."""
        return self.loops.inside - self.alone.probe + self.alone.offset


@dataclass(frozen=True)
class Agreement:
    """The two clocks over the same calls: in loops, where ours is exact, and alone, where nothing is done ahead."""

    outside_us: float
    """The time of a call by our own clock."""
    inside_us: float
    """The time of a call by the worker's."""
    tolerance_us: float
    """How far the outside may be above the inside."""
    whole_us: float
    """The time of a call by our own clock from long loops alone."""
    whole_tolerance_us: float
    """How far that may be above the inside."""
    single_us: float
    """The median of calls that were alone, by the worker's clock."""
    single_tolerance_us: float
    """How far that of calls in loops, `inside_us`, may be above it."""
    single_outside_us: float
    """The time of such a call, by our own clock over the quicker half of them."""
    single_outside_tolerance_us: float
    """How far that may be above the worker's."""
    calls: int
    """Calls that both timed."""

    @property
    def confirmed(self) -> bool:
        """Whether our clock agrees that a call takes no longer than was said."""
        return (
            self.outside_us - self.inside_us <= self.tolerance_us
            and self.whole_us - self.inside_us <= self.whole_tolerance_us
            and self.inside_us - self.single_us <= self.single_tolerance_us
            and self.single_outside_us - self.single_us <= self.single_outside_tolerance_us
        )


def shorter(turns: int) -> int:
    """Turns of the short loop beside a long one, of two turns or more."""
    return max(1, turns // _SHORTER)


def _apart(walls: Sequence[float]) -> float:
    """Half of how far others are from the shortest of these sorted walls: the third, as one may be as short by chance,
    or the one in the middle, on a machine that is never quiet."""
    return (walls[max(min(2, len(walls) - 1), len(walls) // 2)] - walls[0]) / 2 if len(walls) > 1 else walls[0]


def estimate(values: Sequence[float]) -> Estimate:
    """The median of repeated measurements and its standard error."""
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return Estimate(middle, _MEDIAN_EFFICIENCY * _MAD_TO_SIGMA * deviation / math.sqrt(len(values)))


def _of_pairs(values: Sequence[float]) -> Estimate:
    """As `estimate`. Of a few values two may be equal by chance, so all of them say how sure the median is."""
    found = estimate(values)
    if len(values) >= _SOME:
        return found
    error_us = _MEDIAN_EFFICIENCY * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Estimate(found.us, error_us)


def spread(values: Sequence[float]) -> float:
    """How far nine tenths of the values are apart."""
    low, high = np.percentile(values, [5, 95])
    return float(high - low)


@dataclass(frozen=True)
class Leeway:
    """What is borne of a submission's calls, by kind of device."""

    apart: float
    """Share by which calls in a loop may be slower than single ones, for reasons of the device's: it clocks down under
    power, its caches and tables are fuller."""
    noisier: float
    """Times the clean process's error that the submission's own may be, or a quarter of `apart` where that is more."""
    skew: float
    """Share of the median by which the mean may be above it, as far as the walls show that as well."""

    def error_us(self, own_us: float, clean_us: float, call_us: float) -> float:
        """How much of an error that the submission's own figures show counts."""
        return min(own_us, max(self.noisier * clean_us, self.apart / _SIGMAS * abs(call_us)))


def agreement(
    measured: Walls,
    singles: Sequence[tuple[float, float]],
    calibration: Calibration,
    leeway: Leeway,
    *,
    rounding_us: float,
) -> Agreement:
    """Hold the clocks against each other.

    `singles` are single calls: the worker's reading, offset taken off, and our wall, both in microseconds. These agree
    no better than walls differ from call to call and from process to process. `rounding_us` is a step of the worker's
    clock.
    """
    readings = [reading for reading, _ in singles]
    single = Estimate(median_of(readings, rounding_us), estimate(readings).error_us)

    def bounded(own: Estimate, clean: Estimate) -> Estimate:
        return Estimate(own.us, leeway.error_us(own.error_us, clean.error_us, single.us))

    clean, lone = calibration.loops, calibration.alone
    net, inside = bounded(measured.net, clean.net), bounded(measured.inside, clean.inside)
    unexplained_us = _unexplained(measured.digest_us, clean.digest_us, _DIGESTS * abs(single.us))
    more = net - clean.net + Estimate(unexplained_us, 0.0)
    outside_us = (more + lone.probe - lone.offset).us
    # What is in both cancels, and so does what is unknown of it.
    clocks = more - (inside - clean.inside)
    alone = (inside - clean.inside) - (bounded(single, lone.probe) - lone.probe)
    processes = Estimate(0.0, math.sqrt(2) * lone.offset.error_us)
    # In the quicker half, since the median is made by them.
    beside_us = [wall - reading for reading, wall in singles if reading <= statistics.median(readings)]
    clean_us = [each + lone.offset.us for each in lone.beside_us]
    more_us = statistics.median(beside_us) - statistics.median(clean_us)
    walls_us = min(spread(beside_us), leeway.noisier * spread(clean_us)) + spread(clean_us)
    # On a CPU a turn is a hundred times a call, and other work makes more of a difference than processes do.
    apart_for_good_us = _PROCESSES * clean.net.us if clean.in_pairs else 0.0
    tolerance_us = _SIGMAS * clocks.error_us + apart_for_good_us + rounding_us
    once = measured.once - clean.once
    once_us = leeway.error_us(once.error_us / measured.long, clean.once.error_us / measured.long, single.us)
    apart_us = leeway.apart * abs(single.us)
    shown_us = _skew([wall for _, wall in singles]) + spread(clean_us) / math.sqrt(len(singles))
    skew_us = max(0.0, min(_skew(readings), shown_us, leeway.skew * abs(single.us)))
    return Agreement(
        outside_us=outside_us,
        inside_us=(inside - calibration.inside_offset).us,
        tolerance_us=tolerance_us,
        whole_us=outside_us + once.us / measured.long,
        # What a loop costs once may differ a little, where a submission finds its memory anew, say.
        whole_tolerance_us=2 * tolerance_us + _SIGMAS * once_us + apart_us,
        single_us=single.us,
        single_tolerance_us=_SIGMAS * (alone + processes).error_us + rounding_us + apart_us + skew_us,
        single_outside_us=single.us + more_us,
        single_outside_tolerance_us=walls_us + rounding_us + apart_us,
        calls=measured.calls,
    )


def _unexplained(digest_us: float, clean_us: float, most_us: float) -> float:
    """How much of the difference of two digests is more than processes differ by, or than `most_us`."""
    more_us, borne_us = digest_us - clean_us, min(most_us, _DIGESTS * clean_us)
    return more_us - max(-borne_us, min(more_us, borne_us))


def _skew(values: Sequence[float]) -> float:
    return statistics.fmean(values) - statistics.median(values)
