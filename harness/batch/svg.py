"""Small plots as SVG in HTML: shares over a threshold, counts side by side, and values on a logarithmic axis.

They are as wide as there is room, with letters of one size: along the width everything is in percent. Colours other
than the verdicts' are the page's, which has a light and a dark set of them. Every text goes through `escape`: names
come from files, and a page must show them and not run them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

_CURVE, _BOTTOM, _TOP = 220, 190.0, 10.0
"""Of the curve: its height, and where 0 % and 100 % are, in pixels."""
_EDGE = 3.0
"""Room at both ends of a logarithmic axis, percent."""
COLOURS = {
    "accepted": "#009e73",
    "wrong_answer": "#d55e00",
    "compile_error": "#e69f00",
    "runtime_error": "#cc79a7",
    "time_limit": "#56b4e9",
    "memory_limit": "#0072b2",
    "output_limit": "#3d8fa8",
    "rejected": "currentColor",
    "invalid_submission": "#999999",
    "unstable": "#f0e442",
    "judge_error": "#a8283a",
}
"""Of Okabe and Ito's palette as far as it goes, which people who confuse red and green can tell apart. Its black is the
text's colour, which is white on a dark page."""


def escape(text: object) -> str:
    """Text for HTML and SVG, in content and in attributes; what can't be printed becomes a question mark."""
    shown = "".join(each if each.isprintable() else "?" for each in str(text))
    return html.escape(shown, quote=True)


def stacked(rows: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """A bar for each row, its parts by verdict as shares of the row."""
    parts = []
    for name, counts in rows:
        total, x = sum(counts.values()), 0.0
        bars = []
        for verdict in sorted(counts, key=list(COLOURS).index):
            width = 100 * counts[verdict] / total if total else 0.0
            words = f"{escape(name)}: {counts[verdict]} {escape(verdict)}"
            bars.append(
                f'<rect x="{x:.2f}%" y="3" width="{width:.2f}%" height="16" fill="{COLOURS[verdict]}">'
                f"<title>{words}</title></rect>"
            )
            x += width
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in sorted(counts, key=list(COLOURS).index))
        parts.append(_row(name, _svg(bars, 22, said)))
    return "".join(parts)


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

    def up(share: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * share

    at = _axis(low, high)
    parts = _ticks(low, high, at, _TOP, _BOTTOM)
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    parts += [f'<line x1="0" y1="{up(share):.1f}" x2="100%" y2="{up(share):.1f}"/>' for share in shares]
    ordered = sorted(speedups)
    points = [(0.0, up(len(ordered) / submissions))]
    for number, value in enumerate(ordered):
        points.append((at(value), points[-1][1]))
        points.append((at(value), up((len(ordered) - number - 1) / submissions)))
    points.append((100.0, points[-1][1]))
    path = " ".join(f"{x:.2f},{y:.1f}" for x, y in points)
    parts.append(
        f'<svg viewBox="0 0 100 {_CURVE}" preserveAspectRatio="none" width="100%" height="{_CURVE}">'
        f'<polyline points="{path}" vector-effect="non-scaling-stroke"/></svg>'
    )
    parts += [f'<text class="quiet" x="2" y="{up(share) - 3:.1f}">{100 * share:.0f} %</text>' for share in shares]
    return _svg(parts, _CURVE, f"{len(speedups)} of {submissions} submissions are right and were timed")


def strips(rows: Sequence[tuple[str, Sequence[float], float | None]]) -> str:
    """A row of dots for each name, on one logarithmic axis, with a line at each row's mean."""
    low, high = _range([value for _, values, _ in rows for value in values])
    at = _axis(low, high)
    parts = []
    for name, values, mean in rows:
        marks = _ticks(low, high, at, 0, 24, words=False)
        marks += [
            f'<circle cx="{at(value):.2f}%" cy="12" r="4"><title>{value:.4g}x</title></circle>' for value in values
        ]
        if mean:
            marks.append(_line(at(mean), 2, 22, "mean"))
        parts.append(_row(name, _svg(marks, 24, f"geometric mean {mean:.3g}x" if mean else "no mean")))
    parts.append(_row("", _svg(_ticks(low, high, at, 0, 4), 22, "")))
    return "".join(parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Powers of two around the values and 1."""
    low = 2.0 ** math.floor(math.log2(min([*values, 1.0])) - 0.01)
    high = 2.0 ** math.ceil(math.log2(max([*values, 1.0])) + 0.01)
    return low, high


def _axis(low: float, high: float) -> Callable[[float], float]:
    """Where a value is, in percent of the width."""

    def at(value: float) -> float:
        return _EDGE + (100 - 2 * _EDGE) * math.log(value / low) / math.log(high / low)

    return at


def _ticks(
    low: float, high: float, at: Callable[[float], float], top: float, bottom: float, *, words: bool = True
) -> list[str]:
    first, last = round(math.log2(low)), round(math.log2(high))
    step = max(1, math.ceil((last - first) / 7))
    parts = []
    for power in range(first, last + 1):
        if power % step == 0:  # so that 1 is one of them
            parts.append(_line(at(2.0**power), top, bottom, "one" if power == 0 else ""))
            if words:
                x, y = at(2.0**power), bottom + 16
                parts.append(f'<text x="{x:.2f}%" y="{y:.0f}" text-anchor="middle">{2.0**power:.3g}x</text>')
    return parts


def _line(x: float, top: float, bottom: float, kind: str) -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<line x1="{x:.2f}%" y1="{top:.0f}" x2="{x:.2f}%" y2="{bottom:.0f}"{marked}/>'


def _row(name: str, drawing: str) -> str:
    return f'<div class="row"><span>{escape(name)}</span>{drawing}</div>'


def _svg(parts: Sequence[str], height: float, said: str) -> str:
    shown = f'role="img" aria-label="{escape(said)}"' if said else 'aria-hidden="true"'
    return f'<svg {shown} width="100%" height="{height:.0f}" font-size="12">{"".join(parts)}</svg>'
