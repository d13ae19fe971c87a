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


def histogram(samples: Sequence[float], height: float = 120.0) -> list[Bar]:
    """Bars over the samples' range; none where they can't be shown."""
    finite = [sample for sample in samples if math.isfinite(sample)]
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


def intervals(entries: Sequence[tuple[float, float]]) -> list[Row]:
    """Each from its low to its high end, on one logarithmic scale: what a board spans, no linear one could show."""
    usable = [(max(low, 1e-6), max(high, 1e-6)) for low, high in entries]
    if not usable:
        return []
    first = math.log(min(low for low, _ in usable))
    span = math.log(max(high for _, high in usable)) - first or 1.0

    def place(value: float) -> float:
        return WIDTH * (math.log(value) - first) / span

    return [Row(place(low), max(2.0, place(high) - place(low))) for low, high in usable]
