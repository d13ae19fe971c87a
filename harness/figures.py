"""Figures in sentences: of findings, warnings and reasons."""

from __future__ import annotations


def us(value: float, digits: int = 3) -> str:
    """`12.3 us`, `1.02 ms`."""
    if value < 999.5:
        return f"{value:.{digits}g} us"
    return f"{value / 1e3:.{digits}g} ms" if value < 999.5e3 else f"{value / 1e6:.{digits}g} s"


def amount(value: float, what: str = "B") -> str:
    """`403 MB`, `6.44 GB`; with `what` as B/s also rates."""
    for divisor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * divisor:
            return f"{value / divisor:.3g} {prefix}{what}"
    return f"{value:.3g} {what}"


def percent(share: float) -> str:
    """`16 %`, `0.4 %`, `under 0.1 %`."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def times(factor: float) -> str:
    """`16 times`, `1.4 times`."""
    return f"{factor:.3g} times"
