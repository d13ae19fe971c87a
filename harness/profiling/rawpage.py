"""Nsight Compute's raw page as CSV (`ncu --csv --page raw`), read into numbers.

    lines before the table     what ncu says of itself, each with == at its start
    "ID","Process ID",...      the header: columns of the launch, then one for each metric
    "","",...,"nsecond",...    a line of units
    "0","4711",...             a line for each launch that was profiled

Nothing here believes that the text is well formed: it was written beside a submission.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.profiling.metrics import METRICS, PERCENT

_LAUNCHES_MAX = 1000
_COLUMNS_MAX = 2000
_FIELD_MAX = 64 << 10
_SCALE = {
    **{"nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9},
    **{"byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12},
}
"""To nanoseconds and bytes, whatever unit was chosen for a column."""


@dataclass(frozen=True)
class CountedLaunch:
    """One launch that was profiled."""

    kernel: str
    """With its parameters, as ncu demangles it."""
    grid: tuple[int, ...]
    block: tuple[int, ...]
    values: Mapping[str, float]
    """By the names of metrics.py; shares as fractions, times in nanoseconds; what was not read is absent."""


def launches(text: str) -> list[CountedLaunch]:
    """Every launch in the page, in order; none where there is no table."""
    found: list[CountedLaunch] = []
    header: list[str] = []
    units: list[str] = []
    for row in _rows(text):
        if "Kernel Name" in row and "ID" in row:
            header, units = row, []
        elif header and len(row) == len(header):
            if not units and not row[header.index("ID")].strip():
                units = row
            elif len(found) < _LAUNCHES_MAX:
                found.append(_launch(header, units, row))
    return found


def said(text: str) -> list[str]:
    """What ncu says of itself, line by line: `==ERROR== ...`."""
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("==")]


def _rows(text: str) -> Iterator[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith('"') and len(line) <= _FIELD_MAX]
    csv.field_size_limit(max(csv.field_size_limit(), _FIELD_MAX))
    # Line by line: a quote that is never closed takes its own line with it, and no other.
    for line in lines:
        try:
            row = next(csv.reader(io.StringIO(line), strict=True), [])
        except csv.Error:
            continue
        if len(row) <= _COLUMNS_MAX:
            yield row


def _launch(header: list[str], units: list[str], row: list[str]) -> CountedLaunch:
    cells = dict(zip(header, row, strict=True))
    unit_of = dict(zip(header, units, strict=True)) if units else {}
    values = {}
    for name, metric in METRICS.items():
        value = _number(cells.get(metric, ""))
        if value is not None:
            value *= _SCALE.get(unit_of.get(metric, "").lower(), 1.0)
            values[name] = value / 100 if name in PERCENT else value
    return CountedLaunch(
        cells.get("Kernel Name", ""), _sizes(cells.get("Grid Size", "")), _sizes(cells.get("Block Size", "")), values
    )


def _number(cell: str) -> float | None:
    """`1,234.5`, `12`, `3.2e+06`; None for `n/a`, `nan`, nothing and the rest."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _sizes(cell: str) -> tuple[int, ...]:
    """`(256, 1, 1)`."""
    return tuple(int(each) for each in re.findall(r"\d{1,12}", cell)[:3])
