"""How many calls, in which order, and when to stop. Knows nothing of devices: it is fed times and says what is next.

Candidate and reference alternate in blocks, ABBA, so that a slow drift of the device hits both alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from harness.clock.stats import median_interval, relative_half_width

Side = Literal["candidate", "reference"]


@dataclass(frozen=True)
class Goal:
    """When enough is measured."""

    relative_half_width: float = 0.003
    """Of both medians' intervals."""
    budget_s: float = 3.0
    """Seconds of the whole timing stage."""
    min_blocks: int = 4
    """Blocks of each side before an interval means anything."""
    max_blocks: int = 40
    """Blocks of each side at most."""
    block_s: float = 0.1
    """Seconds that one block should take, all its overhead included."""
    max_block_calls: int = 20
    """Calls of one block at most."""


@dataclass
class Plan:
    """The course of one timing stage."""

    goal: Goal
    call_s: dict[Side, float]
    """Seconds that one timed call takes with everything around it, from a trial."""
    blocks: dict[Side, list[list[float]]] = field(default_factory=lambda: {"candidate": [], "reference": []})
    """Samples in microseconds, by block."""
    stopped_because: str = ""

    def turns(self) -> Iterator[Side]:
        """ABBA without end: whose block is next. The caller asks `done` after each pair."""
        while True:
            yield from ("candidate", "reference", "reference", "candidate")

    def calls(self, side: Side) -> int:
        """Calls of one block."""
        fitting = int(self.goal.block_s / max(self.call_s[side], 1e-9))
        return min(self.goal.max_block_calls, max(1, fitting))

    def done(self, elapsed_s: float) -> bool:
        """Whether to stop, given the seconds spent so far; sets `stopped_because`."""
        counts = [len(blocks) for blocks in self.blocks.values()]
        if min(counts) < self.goal.min_blocks:
            if elapsed_s > 4 * self.goal.budget_s and min(counts) >= 1:
                self.stopped_because = f"four times the budget of {self.goal.budget_s:g} s was spent after {min(counts)} blocks of each side"
                return True
            return False
        widths = [relative_half_width(median_interval(blocks, resamples=400)) for blocks in self.blocks.values()]
        if max(widths) <= self.goal.relative_half_width:
            self.stopped_because = (
                f"both intervals are within {100 * self.goal.relative_half_width:g} % of their medians"
            )
            return True
        if elapsed_s > self.goal.budget_s:
            self.stopped_because = f"the budget of {self.goal.budget_s:g} s was spent"
            return True
        if min(counts) >= self.goal.max_blocks:
            self.stopped_because = f"{self.goal.max_blocks} blocks of each side were measured"
            return True
        return False
