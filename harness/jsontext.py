"""Values as JSON that every parser takes, whatever a submission had put into them."""

from __future__ import annotations

import math
from typing import Any


def writable(value: Any) -> Any:
    """The same without what JSON has no word for.

    Texts and values in a report come from submissions: half a surrogate pair can't be written as UTF-8, and evidence
    may hold numbers that are none; they become the strings that the report's own fields use for them.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {writable(key): writable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [writable(item) for item in value]
    return value
