"""Text that a submission had a hand in, made safe to show, and figures made short.

Names of kernels, exception messages, compilers' words and printed lines can hold escape sequences that repaint the
terminal or fake a verdict. Everything shown goes through `clean`, and is handed to Rich as Text, never as markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_ESCAPE_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x1b\\|\x07|\Z)"  # OSC and its kin: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
# Controls, and the marks that turn the direction of writing around or take no room.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.:-=+*#"


def clean(text: str, limit: int = 4000) -> str:
    """Plain lines of printable characters, at most `limit` of them."""
    cut = len(text) > limit
    text = _ESCAPE_SEQUENCES.sub("", text[:limit])
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text + " ..." if cut else text


def one_line(text: str, limit: int = 200) -> str:
    """`clean`, in one line."""
    return " ".join(clean(text, limit).split())


def folded(text: str, first: int, last: int, limit: int = 20_000) -> str:
    """The first and the last lines of a long text, with a line between them that says how many are missing."""
    lines = clean(text[:limit] + text[max(limit, len(text) - limit) :], 2 * limit).strip("\n").split("\n")
    missing = len(lines) - first - last
    if missing <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[:first], f"... {missing} lines not shown ...", *lines[len(lines) - last :]])


def figure(value: float | str | None) -> str:
    """Three digits: `0.00012`, `1.23e-07`, `nan`."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return one_line(value, 40)
    return f"{value:.3g}"


def count(value: int) -> str:
    """`8,388,608`."""
    return f"{value:,}"


def share(part: float) -> str:
    """A fraction in percent; something that is not all and not nothing never reads as 0 % or 100 %."""
    percent = 100 * part
    if 0 < percent < 0.01:
        return "under 0.01 %"
    if 99.99 < percent < 100:
        return "over 99.99 %"
    return f"{percent:.4g} %"


def size(value: int) -> str:
    """Bytes in the unit that memory is sold in: `48 KiB`, `139.8 GiB`."""
    amount, unit = float(value), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.4g} {unit}"


def rate(value: float, what: str) -> str:
    """An amount a second in the unit that data sheets use: `4.43 TB/s`, `66.9 TFLOP/s`."""
    for divisor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= divisor:
            return f"{value / divisor:.3g} {prefix}{what}/s"
    return f"{value:.3g} {what}/s"


def resource(name: str) -> str:
    """What a person calls a resource of a floor."""
    own = {"bytes": "memory", "special_ops": "special functions"}
    return own.get(name, f"{name.removesuffix('_flops')} operations")


def seconds(value: float) -> str:
    """`3 ms`, `0.31 s`, `18.2 s`, `3 min 5 s`."""
    if value < 0.0995:
        return f"{1000 * value:.0f} ms"
    if value < 9.95:
        return f"{value:.2g} s"
    if value < 119.5:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def durations(*values_us: float, ascii_only: bool = False) -> list[str]:
    """Microseconds, all in the unit that suits the first: `957.1 µs`, or `140.2 ms`."""
    micro = "us" if ascii_only else "µs"
    divisor, unit = next(
        (step for step in ((1e6, "s"), (1e3, "ms")) if abs(values_us[0]) >= step[0]),
        (1.0, micro),
    )
    decimals = _decimals(values_us[0] / divisor, (max(values_us) - min(values_us)) / divisor)
    return [f"{value / divisor:.{decimals}f} {unit}" for value in values_us]


def ratios(*values: float) -> list[str]:
    """`1.072x`, `146.5x`."""
    return [f"{value:.{_decimals(values[0], max(values) - min(values))}f}x" for value in values]


def _decimals(value: float, spread: float) -> int:
    """Four digits of the value, or as many as the bounds of a narrow interval need to differ."""
    if not (math.isfinite(value) and math.isfinite(spread)):
        return 1
    for_value = 3 - math.floor(math.log10(abs(value))) if value else 3
    for_spread = 1 - math.floor(math.log10(spread)) if spread > 0 else 0
    return max(0, min(max(for_value, for_spread), 4))


def histogram(samples: Sequence[float], bins: int = 24, ascii_only: bool = False) -> str:
    """Bars from the smallest sample to the 98th percentile; the last bar holds everything slower as well."""
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    ordered = sorted(samples)
    low, high = ordered[0], ordered[min(len(ordered) - 1, math.ceil(0.98 * len(ordered)) - 1)]
    if high <= low:
        return blocks[-1]
    counts = [0] * bins
    for value in ordered:
        counts[min(bins - 1, int(bins * (value - low) / (high - low)))] += 1
    top = max(counts)
    return "".join(" " if n == 0 else blocks[min(len(blocks) - 1, n * len(blocks) // (top + 1))] for n in counts)
