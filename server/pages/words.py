"""Figures and states in words, for the templates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any


def time_of(us: float) -> str:
    """`1.177 ms`, `32.10 µs`."""
    for limit, factor, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if us < limit:
            return f"{us / factor:.4g} {unit}"
    return f"{us / 1e6:.4g} s"


def interval(ends: tuple[float, float]) -> str:
    """Of a time."""
    return f"{time_of(ends[0])} to {time_of(ends[1])}"


def times(factor: float) -> str:
    """Of a speedup."""
    return f"{factor:.3g}x"


def share(fraction: float | None) -> str:
    """`27 %`."""
    return "" if fraction is None else f"{100 * fraction:.2g} %"


def date(at: datetime) -> str:
    """To the minute, UTC."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def verdict(name: str | None) -> str:
    """`wrong answer`."""
    return "" if name is None else name.replace("_", " ")


def tone(name: str | None) -> str:
    """The class of a verdict's colour."""
    if name == "accepted":
        return "good"
    return "wait" if name in ("unstable", "judge_error") else "bad" if name else ""


FILTERS: dict[str, Callable[[Any], str]] = {
    "time": time_of,
    "interval": interval,
    "times": times,
    "share": share,
    "date": date,
    "verdict": verdict,
    "tone": tone,
}
