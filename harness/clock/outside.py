"""The outside clock: the grader's own wall clock over loops that the worker runs.

    T(n)      wall time of a loop of n turns, from the order to the answer, which carries a digest of every output
    turn      the time of one turn, without what every loop costs once. On a GPU that between two marks, which the
              device writes to memory that we look at, over the turns between them; on a CPU
              (T(long) - T(short)) / (long - short) of a long loop and a short one
    overhead  what a turn is more than its call: a turn of the probe in the clean process, less what the probe reads
    outside   turn - overhead: the time of a call by our own clock
    around    what precedes a call in a turn, the write that empties L2, and what follows it, the digest of
              its outputs, as the worker's events tell it. It depends on the pages that memory lies in and on a clock
              that drifts, from process to process and from loop to loop; a difference of one per cent from the probe's
              is taken off, as the events tell it
    beside    turn - around - call: what the two clocks do not agree in
    once      T(n) - n * turn: what a loop costs once, nearly the same in all processes
    whole     outside + (once - the probe's) / long: the same from walls of long loops alone. Who holds up a mark, or
              short loops, makes a turn shorter, and this no shorter

Loops of the probe and of the submission take turns, since a device's state drifts.

The probe is one kernel that makes outputs like the submission's, in the reference's process, which is clean. The time
by our clock is held against the mean of the inside readings of the same calls; how far apart they may be comes from the
spread of the walls.

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
from dataclasses import dataclass, field, replace

import numpy as np

from harness.clock.stats import median_of

_MAD_TO_SIGMA = 1.4826
"""Of a normal distribution: standard deviation over median absolute deviation."""
_MEDIAN_EFFICIENCY = 1.2533
"""Standard error of a median over that of a mean, for normal samples: sqrt(pi / 2)."""
_FEW, _SEVERAL = {2: 6.5, 3: 2.2, 4: 1.6}, 1.5
"""Times that an error is larger when it is made from so few values: Student's t over the normal distribution's, 95 %;
and a little for the median deviation of several, which may be small by chance."""
_SOME = 5
"""Values from which on their median deviation tells how far they are apart."""
_SIGMAS = 4.0
"""Standard errors that the clocks may be apart."""
_LAUNCHES_US = 0.5
"""What parts of a turn may differ by beside a share of them: where a process's code lies makes more of a short one."""
_ONCE_US = 200.0
"""What a loop may cost once more than the probe's: memory that it finds, say."""
_KNOWN = 0.1
"""Share of a call within which walls of single calls have to be known to say all that there is to be said of them."""
_COPIES = 2.0
"""What a copy of an output may take, over the time of the probe, which reads and writes as much in an easier order."""
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


@dataclass(frozen=True)
class Bounds:
    """From where to where a figure is believed."""

    least: float
    most: float

    def __call__(self, figure: float) -> float:
        return min(max(figure, self.least), self.most)


_UNBOUNDED = Bounds(-math.inf, math.inf)


@dataclass(frozen=True)
class _Timed:
    """A loop by both clocks, microseconds."""

    turns: int
    wall_us: float
    span_us: float
    """From one mark to the other; 0 where there are none."""
    call_us: float
    """Mean reading of its turns, those before the first mark left out; so are they of the next."""
    around_us: float
    """What preceded and followed a call, as the worker tells it; 0 where the device was waited for."""


@dataclass
class Walls:
    """Loops by both clocks."""

    long: int
    """Turns of a long one."""
    marked: bool = True
    """Whether marks say when some turns of a loop had ended and when all had, so that each loop gives a turn, of which
    the median counts: right for a device of its own, whose state drifts. Else short loops and long ones do, of which
    the shortest count: right for a CPU, where other work makes any wall longer."""
    loops: list[_Timed] = field(default_factory=list)
    behind: int = 0
    """Loops whose calls were not all queued when their device was let go."""
    copied: bool = False
    """Whether the worker says that outputs had to be copied for their digests, as those of the probe never have."""

    @property
    def short(self) -> int:
        """Turns of a short loop, and turns before the first mark, in which a device comes to its pace."""
        return max(1, self.long // _SHORTER)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Of each loop that is to be run at a time: its turns, and how many of them before the first mark."""
        return [(self.long, self.short)] if self.marked else [(self.short, 0), (self.long, 0)]

    @property
    def calls(self) -> int:
        """Turns of all of them."""
        return sum(loop.turns for loop in self.loops)

    def add(self, wall_s: float, span_s: float, readings_us: Sequence[float], around_us: float) -> None:
        """Take in a loop of one of the lengths."""
        call_us = statistics.fmean(readings_us[self.short if self.marked else 0 :])
        self.loops.append(_Timed(len(readings_us), wall_s * 1e6, span_s * 1e6, call_us, around_us))

    @property
    def turns_us(self) -> list[float]:
        """The time of a turn by our own clock, of each marked loop."""
        return [loop.span_us / (self.long - self.short) for loop in self.loops]

    def beside(self, believed: Bounds = _UNBOUNDED) -> Estimate:
        """The time of a turn less what is told of it: of its call, and around that as far as it is `believed`."""
        if not self.marked:
            return self._shortest() - self.inside
        turns = zip(self.turns_us, self.loops, strict=True)
        found = _of_loops([turn - believed(loop.around_us) - loop.call_us for turn, loop in turns])
        return Estimate(found.us, found.error_us * _FEW.get(len(self.loops), _SEVERAL))

    def around(self, share: float) -> Bounds:
        """What is believed of what is told of other loops, which had theirs between these: they may differ by this
        share."""
        seen = [loop.around_us for loop in self.loops]
        borne_us = share * statistics.median(seen) + _LAUNCHES_US
        return Bounds(min(seen) - borne_us, max(seen) + borne_us)

    def _shortest(self) -> Estimate:
        """The time of a turn by the shortest walls."""
        short, long = self._walls(self.short), self._walls(self.long)
        more = self.long - self.short
        return Estimate((long[0] - short[0]) / more, math.hypot(_apart(short), _apart(long)) / more)

    def _walls(self, turns: int) -> list[float]:
        return sorted(loop.wall_us for loop in self.loops if loop.turns == turns)

    @property
    def once(self) -> Estimate:
        """What a loop costs beside its turns."""
        if not self.marked:
            short, turn = self._walls(self.short), self._shortest()
            return Estimate(short[0] - self.short * turn.us, math.hypot(_apart(short), self.short * turn.error_us))
        walls = zip(self.loops, self.turns_us, strict=True)
        return _of_loops([loop.wall_us - loop.turns * turn for loop, turn in walls])

    @property
    def inside(self) -> Estimate:
        """The mean reading of a turn."""
        return _of_loops([loop.call_us for loop in self.loops])


@dataclass(frozen=True)
class Singles:
    """What the clean process on this device says about single calls."""

    probe: Estimate
    """What the worker's clock reads for the probe."""
    beside_us: Sequence[float]
    """Walls of probes, less what the worker's clock reads in them, microseconds."""
    bare_us: Sequence[float]
    """Walls of probes with nothing around them, less what a probe takes, microseconds."""
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
    """The time of a call by our own clock from walls of whole loops."""
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
    bare_outside_us: float
    """The time of a call with nothing around it, by our own clock."""
    bare_tolerance_us: float
    """How far that may be above the time of one with cold caches, which it can't be."""
    calls: int
    """Calls that both timed."""
    exact: bool
    """Whether a device wrote where walls of single calls end, so that no host is in them."""
    ahead: bool
    """Whether hosts were ahead of their devices in most loops, so that they show the device's time and nothing else."""

    @property
    def by_singles(self) -> bool:
        """Whether single calls are known by their own walls. Then it is no matter what calls in loops take, which may
        find a pipeline full, or an address for the first time."""
        return self.exact and self.single_outside_tolerance_us <= _KNOWN * abs(self.single_us)

    @property
    def unsure_us(self) -> float:
        """How much longer a call that is alone may take than was said without being found out: by its own wall, or by
        how far our clock may be above the worker's in loops, and those above the other; and with nothing around it."""
        apart_us = self.single_outside_tolerance_us if self.by_singles else self.tolerance_us + self.single_tolerance_us
        return max(apart_us, self.bare_tolerance_us)

    @property
    def confirmed(self) -> bool:
        """Whether our clock agrees that a call takes no longer than was said."""
        loops = (
            self.outside_us - self.inside_us <= self.tolerance_us
            and self.whole_us - self.inside_us <= self.whole_tolerance_us
        )
        return (
            # A call that waits for its device, to make a graph for each address, say, can't be queued; in a loop the
            # device then waits for the host, which is no time of any call.
            (loops or (self.by_singles and not self.ahead))
            and (self.by_singles or self.inside_us - self.single_us <= self.single_tolerance_us)
            and self.single_outside_us - self.single_us <= self.single_outside_tolerance_us
            and self.bare_outside_us - self.single_us <= self.bare_tolerance_us
        )


def _apart(walls: Sequence[float]) -> float:
    """Half of how far others are from the shortest of these sorted walls: the third, as one may be as short by chance,
    or the one in the middle, on a machine that is never quiet."""
    return (walls[max(min(2, len(walls) - 1), len(walls) // 2)] - walls[0]) / 2 if len(walls) > 1 else walls[0]


def estimate(values: Sequence[float]) -> Estimate:
    """The median of repeated measurements and its standard error."""
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return Estimate(middle, _MEDIAN_EFFICIENCY * _MAD_TO_SIGMA * deviation / math.sqrt(len(values)))


def _of_loops(values: Sequence[float]) -> Estimate:
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
    parts: float
    """Share by which what precedes a call and follows it may differ between two processes for good, and a turn that
    nothing is told of. On an H200 turns of the same probe were up to 0.8 % apart, most of them 0.3 %."""
    skew: float
    """Share of the median by which the mean may be above it, as far as the walls show that as well."""

    def error_us(self, own_us: float, clean_us: float, call_us: float) -> float:
        """How much of an error that the submission's own figures show counts."""
        return min(own_us, max(self.noisier * clean_us, self.apart / _SIGMAS * abs(call_us)))

    def walls_us(self, own_us: Sequence[float], clean_us: Sequence[float]) -> float:
        """How far the median of a submission's walls may be above that of the clean process's."""
        return min(spread(own_us), self.noisier * spread(clean_us)) + spread(clean_us)


def agreement(
    measured: Walls,
    singles: Sequence[tuple[float, float]],
    bare_us: Sequence[float],
    calibration: Calibration,
    leeway: Leeway,
    *,
    rounding_us: float,
    exact: bool,
) -> Agreement:
    """Hold the clocks against each other.

    `singles` are single calls: the worker's reading, offset taken off, and our wall, both in microseconds. These agree
    no better than walls differ from call to call and from process to process. `bare_us` are our walls of calls with
    nothing around them. `rounding_us` is a step of the worker's clock, `exact` whether a device wrote where walls of
    single calls end.
    """
    readings = [reading for reading, _ in singles]
    single = Estimate(median_of(readings, rounding_us), estimate(readings).error_us)

    def bounded(own: Estimate, clean: Estimate) -> Estimate:
        return Estimate(own.us, leeway.error_us(own.error_us, clean.error_us, single.us))

    clean, lone = calibration.loops, calibration.alone
    inside = bounded(measured.inside, clean.inside)
    inside_us = (inside - calibration.inside_offset).us
    believed = clean.around(leeway.parts)
    copies_us = _COPIES * (lone.probe - lone.offset).us if measured.copied else 0.0
    believed = replace(believed, most=believed.most + copies_us)
    # What is in both cancels, and so does what a call takes more in one loop than in another.
    apart = bounded(measured.beside(believed), clean.beside()) - clean.beside()
    outside_us = inside_us + apart.us
    alone = (inside - clean.inside) - (bounded(single, lone.probe) - lone.probe)
    processes = Estimate(0.0, math.sqrt(2) * lone.offset.error_us)
    # In the quicker half, since the median is made by them.
    beside_us = [wall - reading for reading, wall in singles if reading <= statistics.median(readings)]
    clean_us = [each + lone.offset.us for each in lone.beside_us]
    more_us = statistics.median(beside_us) - statistics.median(clean_us)
    walls_us = leeway.walls_us(beside_us, clean_us)
    # On a CPU a turn is a hundred times a call, and other work makes more of a difference than processes do; of a GPU
    # that is waited for nothing is told but the call.
    untold_us = leeway.parts * clean.beside().us if clean.marked else 0.0
    if not any(loop.around_us for loop in clean.loops):
        untold_us += copies_us
    tolerance_us = _SIGMAS * apart.error_us + max(0.0, untold_us) + rounding_us
    once = measured.once - clean.once
    once_us = leeway.error_us(once.error_us / measured.long, clean.once.error_us / measured.long, single.us)
    apart_us = leeway.apart * abs(single.us)
    shown_us = _skew([wall for _, wall in singles]) + spread(clean_us) / math.sqrt(len(singles))
    skew_us = max(0.0, min(_skew(readings), shown_us, leeway.skew * abs(single.us)))
    return Agreement(
        outside_us=outside_us,
        inside_us=inside_us,
        tolerance_us=tolerance_us,
        whole_us=outside_us + once.us / measured.long,
        whole_tolerance_us=2 * tolerance_us + _SIGMAS * once_us + _ONCE_US / measured.long + apart_us,
        single_us=single.us,
        single_tolerance_us=_SIGMAS * (alone + processes).error_us + rounding_us + apart_us + skew_us,
        single_outside_us=single.us + more_us,
        single_outside_tolerance_us=walls_us + rounding_us + apart_us + copies_us,
        bare_outside_us=statistics.median(bare_us) - statistics.median(lone.bare_us),
        bare_tolerance_us=leeway.walls_us(bare_us, lone.bare_us) + rounding_us + apart_us + copies_us,
        calls=measured.calls,
        exact=exact,
        ahead=2 * measured.behind <= len(measured.loops),
    )


def _skew(values: Sequence[float]) -> float:
    return statistics.fmean(values) - statistics.median(values)
