"""A submission's text with what compilers said beside the lines that they said it about.

A compiler counts lines within the text that `load_inline` was given; the grading found the lines of the file that these
are, where that is clear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LINES = 5000
"""That are shown: several times as many as long submissions have."""


@dataclass(frozen=True)
class Note:
    """Something said about a line."""

    severity: str
    message: str
    hint: str | None


@dataclass
class Line:
    """One line of the file."""

    number: int
    text: str
    notes: list[Note] = field(default_factory=list)


def annotated(source: str, report: Mapping[str, Any] | None) -> tuple[list[Line], list[Mapping[str, Any]]]:
    """The first lines with their notes, and the diagnostics that have no line here."""
    lines = [Line(number, text) for number, text in enumerate(_split(source)[:LINES], 1)]
    if report is None:
        return lines, []
    evidence = report["reason"]["evidence"]
    if report["reason"]["code"] == "submission.syntax_error" and isinstance(evidence.get("line"), int):
        _note(lines, evidence["line"], Note("error", str(evidence.get("error", "syntax error")), None))
    diagnostics: Sequence[Mapping[str, Any]] = report["build"]["diagnostics"]
    elsewhere = []
    for one in diagnostics:
        at = one.get("submission_line")  # which reports of earlier versions do not have
        if not isinstance(at, int) or not _note(lines, at, Note(one["severity"], one["message"], one["hint"])):
            elsewhere.append(one)
    return lines, elsewhere


def more_lines(source: str) -> int:
    """How many lines there are after those."""
    return max(0, len(_split(source)) - LINES)


def _split(source: str) -> list[str]:
    return source.removesuffix("\n").split("\n") if source else []


def _note(lines: Sequence[Line], number: int, note: Note) -> bool:
    if not 1 <= number <= len(lines):
        return False
    lines[number - 1].notes.append(note)
    return True
