"""Figures and states in words, for the templates.

A report's JSON has what is not finite as text (`Infinity`, `NaN`): an interval of a few samples has no end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from harness.client.answers import no_agent

_NO_FIGURE = "unknown"


def time_of(us: float | str) -> str:
    """`1.177 ms`, `32.10 µs`."""
    us = float(us)
    if not math.isfinite(us):
        return _NO_FIGURE
    for limit, factor, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if us < limit:
            return f"{us / factor:.4g} {unit}"
    return f"{us / 1e6:.4g} s"


def interval(ends: tuple[float | str, float | str]) -> str:
    """Of a time."""
    return f"{time_of(ends[0])} to {time_of(ends[1])}"


def times(factor: float | str) -> str:
    """Of a speedup."""
    factor = float(factor)
    return f"{factor:.3g}x" if math.isfinite(factor) else _NO_FIGURE


def share(fraction: float | str | None) -> str:
    """`27 %`."""
    if fraction is None:
        return ""
    fraction = float(fraction)
    return f"{100 * fraction:.2g} %" if math.isfinite(fraction) else _NO_FIGURE


def figure(value: float | str) -> str:
    """Three digits of whatever it is."""
    return f"{float(value):.3g}"


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


def waits(kind: str) -> str:
    """Why a submission is not taken, from its `waits_for`."""
    return f"{no_agent(kind).capitalize()}."


FILTERS: dict[str, Callable[[Any], str]] = {
    "time": time_of,
    "interval": interval,
    "times": times,
    "share": share,
    "figure": figure,
    "date": date,
    "verdict": verdict,
    "tone": tone,
    "waits": waits,
}
