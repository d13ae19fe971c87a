"""Entries of a leaderboard in words, with what a reader should know of their times.

That is, those warnings of a report that bear on the time. They change no rank: entries are ordered by their times,
whatever is said of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from harness.figures import us


class Mark(NamedTuple):
    """Words for one warning."""

    short: str
    """For a line of a table."""
    sentence: str
    """What it means."""


MARKS = {
    "time.weakly_confirmed": Mark(
        "weakly confirmed",
        "The grader's own clock was too unsure, for so short a call or on so busy a machine, to say that a call takes "
        "no longer than the submission's process says.",
    ),
    "time.offset_moved": Mark(
        "clock moved", "What the device's events read beside a kernel had changed since the device was measured."
    ),
    "device.busy": Mark("busy device", "Something else kept the device busy."),
    "device.shared": Mark("shared device", "Something else had the device open before the grading."),
    "device.slow": Mark("slow device", "A known kernel took longer than it usually does on this device."),
    "precision.below_spec": Mark("less precise", "It computes less accurately than the problem asks for."),
    "audit.only_library_kernels": Mark("library kernels", "Every kernel of a call is a library's."),
    "audit.kernels_not_launched": Mark("own kernels unused", "Kernels were built, and a call launches none of them."),
    "audit.trace_incomplete": Mark(
        "trace incomplete", "The kernels of a call add up to less than a fifth of the time that was measured."
    ),
}
"""By the code of the warning, those that weigh most first."""


def marks_of(entries: Iterable[dict[str, Any]]) -> list[Mark]:
    """What is to be said of entries of a leaderboard, each thing once. A server of an older version says nothing."""
    told = {code for entry in entries for code in entry.get("warnings", ())}
    return [mark for code, mark in MARKS.items() if code in told]


def entry_line(entry: dict[str, Any]) -> str:
    """An entry of a leaderboard in one line of plain text."""
    low, high = entry["ci95_us"]
    tied = "=" if entry["tied"] else ""
    noted = "".join(f", {mark.short}" for mark in marks_of([entry]))
    return (
        f"{entry['rank']}{tied} {us(entry['time_us'], 4)} ({us(low, 4)} to {us(high, 4)}), {entry['speedup']:.3g}x, "
        f"{entry['user']}{noted}"
    )
