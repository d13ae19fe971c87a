"""Charts as SVG elements: coordinates worked out here, drawn by a template, styled by the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 600.0


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram."""

    x: float
    width: float
    height: float
    count: int
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One interval of a leaderboard's plot."""

    left: float
    width: float
    middle: float
    """Where the time itself is."""


@dataclass(frozen=True)
class Tick:
    """One mark of an axis."""

    x: float
    value: float


def histogram(samples: Sequence[float | str], height: float = 120.0) -> list[Bar]:
    """Bars over the samples' range; none where they can't be shown."""
    finite = [value for sample in samples if math.isfinite(value := float(sample))]
    if len(finite) < 2 or min(finite) == max(finite):
        return []
    low, high = min(finite), max(finite)
    count = min(40, max(5, round(2 * len(finite) ** (1 / 3))))
    counts = [0] * count
    for sample in finite:
        counts[min(count - 1, int((sample - low) / (high - low) * count))] += 1
    step, width = (high - low) / count, WIDTH / count
    return [
        Bar(
            index * width,
            width - 1,
            height * number / max(counts),
            number,
            low + index * step,
            low + (index + 1) * step,
        )
        for index, number in enumerate(counts)
    ]


def intervals(entries: Sequence[tuple[float, float, float]]) -> tuple[list[Row], list[Tick]]:
    """Each (low, middle, high) on one logarithmic scale, and the scale's marks: what a board spans, no linear scale
    could show."""
    usable = [tuple(max(value, 1e-6) for value in entry) for entry in entries]
    if not usable:
        return [], []
    lowest, highest = min(entry[0] for entry in usable), max(entry[2] for entry in usable)
    # Room on both sides, and at least a tenth: a board with one entry is no scale of its own.
    first = math.log(lowest) - 0.05
    span = math.log(highest) + 0.05 - first

    def place(value: float) -> float:
        return WIDTH * (math.log(value) - first) / span

    rows = [Row(place(low), max(2.0, place(high) - place(low)), place(middle)) for low, middle, high in usable]
    return rows, [Tick(place(value), value) for value in _round_values(math.exp(first), math.exp(first + span))]


_STEPS = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    *(tuple(1 + n / parts for n in range(9 * parts)) for parts in (2, 10, 100)),
)
"""Of each power of ten, from few to many."""


def _round_values(low: float, high: float) -> list[float]:
    """Two to six values in a range of a tenth or more, as round as they can be."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in _STEPS:
        found = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(found) >= 3:
            break
    return found[:: math.ceil(len(found) / 6)]
