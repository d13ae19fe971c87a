"""Figures and texts for people."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import text


@pytest.mark.parametrize(
    ("given_us", "expected"),
    [
        ((957.123, 955.8, 958.3), ["957.1 µs", "955.8 µs", "958.3 µs"]),
        ((140_213.0, 140_182.0, 140_248.0), ["140.213 ms", "140.182 ms", "140.248 ms"]),
        ((4.0, 3.9, 4.1), ["4.000 µs", "3.900 µs", "4.100 µs"]),
        ((999.9, 990.0, 1010.0), ["999.9 µs", "990.0 µs", "1010.0 µs"]),
        ((2.5e6,), ["2.500 s"]),
        ((0.0,), ["0.000 µs"]),
        ((float("nan"),), ["nan µs"]),
    ],
)
def test_durations_share_the_unit_of_the_first_and_show_a_narrow_interval(given_us, expected):
    assert text.durations(*given_us) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0004, "0 ms"), (0.04, "40 ms"), (0.31, "0.31 s"), (18.23, "18.2 s"), (119.6, "2 min 0 s"), (185, "3 min 5 s")],
)
def test_seconds(value, expected):
    assert text.seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0 %"), (1e-9, "under 0.01 %"), (0.14717, "14.72 %"), (0.999999, "over 99.99 %"), (1.0, "100 %")],
)
def test_a_share_that_is_not_all_or_nothing_never_reads_so(value, expected):
    assert text.share(value) == expected


def test_folding_keeps_both_ends_and_counts_what_is_missing():
    lines = [f"line {number}" for number in range(100)]
    assert text.folded("\n".join(lines), first=2, last=3).split("\n") == [
        "line 0",
        "line 1",
        "... 95 lines not shown ...",
        "line 97",
        "line 98",
        "line 99",
    ]


def test_folding_shows_the_end_of_an_endless_line():
    assert text.folded("a" * 1_000_000 + "the end", first=1, last=1, limit=100).endswith("the end")


@settings(deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=200), st.booleans())
def test_a_histogram_is_one_short_line_whatever_the_samples(samples, ascii_only):
    bars = text.histogram(samples, ascii_only=ascii_only)
    assert 1 <= len(bars) <= 24
    assert "\n" not in bars
    assert bars.isascii() or not ascii_only
    assert bars.strip()


def test_a_histogram_shows_two_modes():
    bars = text.histogram([10.0] * 50 + [20.0] * 50, bins=10)
    assert bars == "█" + " " * 8 + "█"


def test_cleaning_takes_escape_sequences_away_whole():
    assert text.clean("\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07") == "red link"
    assert text.clean("50 %\rdone\r\nnext") == "50 %\ndone\nnext"
