"""Small plots as SVG text: shares over a threshold, counts side by side, and values on a logarithmic axis.

Every text goes through `escape`: names come from files, and a page must show them and not run them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

_WIDTH = 720.0
_LEFT = 220.0
"""Room for names."""
_ROW = 22.0
COLOURS = {
    "accepted": "#009e73",
    "wrong_answer": "#d55e00",
    "compile_error": "#e69f00",
    "runtime_error": "#cc79a7",
    "time_limit": "#56b4e9",
    "memory_limit": "#0072b2",
    "output_limit": "#005f86",
    "rejected": "#000000",
    "invalid_submission": "#999999",
    "unstable": "#f0e442",
    "judge_error": "#7f0000",
}
"""Of Okabe and Ito's palette as far as it goes, which people who confuse red and green can tell apart."""


def escape(text: object) -> str:
    """Text for HTML and SVG, in content and in attributes; what can't be printed becomes a question mark."""
    shown = "".join(each if each.isprintable() else "?" for each in str(text))
    return html.escape(shown, quote=True)


def stacked(rows: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """A bar for each row, its parts by verdict as shares of the row."""
    parts = []
    for number, (name, counts) in enumerate(rows):
        y = number * _ROW
        parts.append(_name(name, y))
        total, x = sum(counts.values()), _LEFT
        for verdict in sorted(counts, key=list(COLOURS).index):
            width = (_WIDTH - _LEFT) * counts[verdict] / total if total else 0.0
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 3:.1f}" width="{width:.1f}" height="{_ROW - 6:.1f}" '
                f'fill="{COLOURS[verdict]}"><title>{escape(name)}: {counts[verdict]} {escape(verdict)}</title></rect>'
            )
            x += width
    return _svg(parts, len(rows) * _ROW)


def legend(verdicts: Sequence[str]) -> str:
    """The colours of those verdicts, in words."""
    return " ".join(
        f'<span style="white-space:nowrap"><span style="color:{COLOURS[each]}">&#9632;</span> {escape(each)}</span>'
        for each in COLOURS
        if each in verdicts
    )


def curve(speedups: Sequence[float], submissions: int) -> str:
    """fast_p over p: the share of all submissions that is right and more than p times as fast, p logarithmic."""
    if not submissions:
        return ""
    low, high = _range(speedups)
    height, bottom = 220.0, 190.0
    left = 50.0

    def at(p: float) -> float:
        return left + (_WIDTH - left - 10) * (math.log(p) - math.log(low)) / (math.log(high) - math.log(low))

    def up(share: float) -> float:
        return bottom - (bottom - 10) * share

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_line(left, up(share), _WIDTH - 10, up(share)))
        parts.append(_text(left - 6, up(share) + 4, f"{100 * share:.0f} %", "end"))
    parts += _ticks(low, high, at, 10, bottom)
    left_over = sorted(speedups)
    points = [(left, up(len(left_over) / submissions))]
    for number, value in enumerate(left_over):
        points.append((at(value), points[-1][1]))
        points.append((at(value), up((len(left_over) - number - 1) / submissions)))
    points.append((_WIDTH - 10, points[-1][1]))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="2"/>')
    return _svg(parts, height)


def strips(rows: Sequence[tuple[str, Sequence[float], float | None]]) -> str:
    """A row of dots for each name, on one logarithmic axis, with a line at each row's mean."""
    low, high = _range([value for _, values, _ in rows for value in values])

    def at(value: float) -> float:
        return _LEFT + 10 + (_WIDTH - _LEFT - 20) * (math.log(value / low)) / math.log(high / low)

    bottom = len(rows) * _ROW
    parts = _ticks(low, high, at, 0, bottom)
    for number, (name, values, mean) in enumerate(rows):
        y = number * _ROW
        parts.append(_name(name, y))
        parts += [
            f'<circle cx="{at(value):.1f}" cy="{y + _ROW / 2:.1f}" r="3.5" fill="#0072b2" fill-opacity="0.55">'
            f"<title>{value:.4g}x</title></circle>"
            for value in values
        ]
        if mean:
            parts.append(_line(at(mean), y + 2, at(mean), y + _ROW - 2, "#d55e00", 2))
    return _svg(parts, bottom + 30)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Powers of two around the values and 1."""
    low = 2.0 ** math.floor(math.log2(min([*values, 1.0])) - 0.01)
    high = 2.0 ** math.ceil(math.log2(max([*values, 1.0])) + 0.01)
    return low, high


def _ticks(low: float, high: float, at: object, top: float, bottom: float) -> list[str]:
    assert callable(at)
    first, last = round(math.log2(low)), round(math.log2(high))
    step = max(1, (last - first) // 8)
    parts = []
    for power in range(first, last + 1, step):
        value = 2.0**power
        x = float(at(value))
        parts.append(_line(x, top, x, bottom, "#000000" if power == 0 else "#dddddd"))
        parts.append(_text(x, bottom + 16, f"{value:g}x", "middle"))
    return parts


def _name(name: str, y: float) -> str:
    shown = name if len(name) <= 32 else name[:31] + "\N{HORIZONTAL ELLIPSIS}"
    return _text(_LEFT - 8, y + _ROW / 2 + 4, shown, "end")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#dddddd", width: float = 1) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:g}"/>'


def _svg(parts: Sequence[str], height: float) -> str:
    body = "".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" font-size="12">{body}</svg>'
