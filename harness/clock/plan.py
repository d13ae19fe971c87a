"""How many calls, in which order, and when to stop. Knows nothing of devices: it is fed times and says what is next.

Candidate and reference alternate in blocks, ABBA, so that a slow drift of the device hits both alike; with a further
side it is ABCCBA.

    add blocks  -->  done? no: the next round, one block of each side
                           yes: enough | out of time | most blocks measured | device not steady
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from harness.clock.stats import NOTHING_KNOWN, Interval, median_interval, relative_half_width

Side = Literal["candidate", "reference", "compiled"]
"""compiled: the reference under torch.compile, where that is asked for."""

_HARD_STOP = 4
"""Times the budget: here measuring ends even with fewer blocks than were asked for."""
_RESAMPLES = 400
"""While measuring; the reported intervals take more."""


@dataclass(frozen=True)
class Goal:
    """When enough is measured."""

    relative_half_width: float = 0.003
    """Of both medians' intervals, beside one step of the clock, within which more samples decide nothing."""
    budget_s: float = 2.5
    """Seconds of the whole timing stage."""
    min_blocks: int = 6
    """Blocks of each side at least: fewer leave the interval to what is assumed about them."""
    max_blocks: int = 40
    """Blocks of each side at most."""
    block_s: float = 0.055
    """Seconds that one block of the candidate should take, all its overhead included."""
    baseline_share: float = 0.5
    """The same of another side's, over that: what a call of the submission takes is what is asked for above all."""
    max_block_calls: int = 20
    """Calls of one block at most."""
    max_unsteady: int = 20
    """Blocks that may be measured again, of both sides together, before the device is called unsteady."""

    def __post_init__(self) -> None:
        counts = (self.min_blocks, self.max_blocks - self.min_blocks + 1, self.max_block_calls)
        if min(counts) < 1 or self.max_unsteady < 0:
            raise ValueError(f"no such goal: {self}")
        if not (self.relative_half_width >= 0 and min(self.budget_s, self.block_s, self.baseline_share) > 0):
            raise ValueError(f"no such goal: {self}")


@dataclass
class Plan:
    """The course of one timing stage."""

    goal: Goal
    call_s: dict[Side, float]
    """Seconds that one timed call takes with everything around it, from a trial."""
    reserve_s: float = 0.0
    """Seconds of the budget that are kept for what comes after the blocks."""
    blocks: dict[Side, list[list[float]]] = field(init=False)
    """Samples in microseconds, by block."""
    dropped: dict[Side, list[list[float]]] = field(init=False)
    """Blocks that were measured while the device was not steady: they count for nothing."""
    unsteady: list[str] = field(default_factory=list)
    """Why each dropped block was dropped, in words, in the order in which that happened."""
    step_us: dict[Side, float] = field(default_factory=dict)
    """The steps of each side's clock, as far as they are known."""
    unsure_us: dict[Side, float] = field(default_factory=dict)
    """How far off a side's clock may be in whatever is measured here: half of an interval that no sample makes less."""
    stopped_because: str = ""

    def __post_init__(self) -> None:
        self.blocks = {side: [] for side in self.call_s}
        self.dropped = {side: [] for side in self.call_s}

    def rounds(self) -> Iterator[list[Side]]:
        """Without end: whose blocks are next, every other round backwards. The caller asks `done` after each."""
        sides = list(self.call_s)
        while True:
            yield sides
            yield sides[::-1]

    def calls(self, side: Side) -> int:
        """Calls of one block."""
        block_s = self.goal.block_s * (1.0 if side == "candidate" else self.goal.baseline_share)
        fitting = int(block_s / max(self.call_s[side], 1e-9))
        return min(self.goal.max_block_calls, max(1, fitting))

    def replace_last(self, side: Side, why: str) -> bool:
        """Drop the block of `side` that was added last. True: measure it again; False: it has been tried enough."""
        self.dropped[side].append(self.blocks[side].pop())
        self.unsteady.append(why)
        return not self.unstable

    @property
    def unstable(self) -> bool:
        """Whether the device was unsteady more often than the goal bears: nothing can be said of times then."""
        return len(self.unsteady) > self.goal.max_unsteady

    def done(self, elapsed_s: float) -> bool:
        """Whether to stop, given the seconds spent so far; sets `stopped_because`."""
        reason = self._reason(elapsed_s)
        if reason is not None:
            self.stopped_because = reason
        return reason is not None

    def _reason(self, elapsed_s: float) -> str | None:
        goal, count = self.goal, self._count()
        if self.unstable:
            return f"the device was not steady in {len(self.unsteady)} blocks"
        if count < goal.min_blocks:
            if count >= 1 and elapsed_s > _HARD_STOP * goal.budget_s:
                spent = f"{_HARD_STOP} times the budget of {goal.budget_s:g} s was spent"
                return f"{spent} after {_blocks(count)} of each side"
            return None
        too_wide = self._too_wide()
        if not too_wide:
            return f"both intervals are within {100 * goal.relative_half_width:g} % of their medians"
        if not any(self._worth_more(side, interval) for side, interval in too_wide.items()):
            return "what the clock itself is unsure of is wider by now than what more samples would make less"
        # A block that would end beyond the budget is not begun.
        if elapsed_s + self._round_s() + self.reserve_s > goal.budget_s:
            return f"the budget of {goal.budget_s:g} s was spent"
        if count >= goal.max_blocks:
            return f"{_blocks(goal.max_blocks)} of each side were measured"
        return None

    @property
    def short(self) -> bool:
        """Whether fewer blocks were measured than were asked for."""
        return self._count() < self.goal.min_blocks

    def shortfall(self) -> str:
        """What is missing to what was asked for, as a sentence; empty when nothing is."""
        parts = []
        if self.short:
            counts = ", ".join(f"{side} {len(blocks)}" for side, blocks in self.blocks.items())
            parts.append(f"fewer than the {_blocks(self.goal.min_blocks)} of each side that were asked for ({counts})")
        for side, interval in self._too_wide().items():
            width = relative_half_width(interval)
            known = "has no ends" if math.isinf(width) else f"is within {100 * width:.2g} % of its median"
            parts.append(f"the {side}'s interval {known}, {100 * self.goal.relative_half_width:g} % was asked for")
        return f"{parts[0][0].upper()}{'; '.join(parts)[1:]}." if parts else ""

    def _too_wide(self) -> dict[Side, Interval]:
        """The sides whose interval is wider than asked for, with it."""
        found: dict[Side, Interval] = {}
        for side, blocks in self.blocks.items():
            if not any(blocks):
                found[side] = NOTHING_KNOWN
                continue
            step_us = self.step_us.get(side, 0.0)
            interval = median_interval(blocks, resamples=_RESAMPLES, step=step_us)
            if _noise(interval, step_us) > self.goal.relative_half_width:
                found[side] = interval
        return found

    def _worth_more(self, side: Side, interval: Interval) -> bool:
        """Whether more samples would make an interval less by much: it is wider than what the clock adds to it."""
        low, high = interval
        return not (high - low) / 2 - self.step_us.get(side, 0.0) <= self.unsure_us.get(side, 0.0)

    def _count(self) -> int:
        return min(len(blocks) for blocks in self.blocks.values())

    def _round_s(self) -> float:
        return sum(self.calls(side) * seconds for side, seconds in self.call_s.items())


def _noise(interval: Interval, step: float) -> float:
    """The relative half width without what the clock's steps add to it: half a step at each end, and one between."""
    low, high = interval
    if high == float("inf"):
        return high
    return max(0.0, high - low - 2 * step) / (high + low) if high + low > 0 else 0.0


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"
