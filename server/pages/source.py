"""A submission's text with what compilers said beside the lines that they said it about.

A compiler counts lines within the text that `load_inline` was given. Where that text stands in the file is worked out
without running anything: a string in the call, or a name that is bound once, to a string. What can't be placed without
doubt is not placed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.load.pysource import SourceSyntaxError, parse_source

LINES = 5000
"""That are shown: several times as many as long submissions have."""
_PLACED_CHARS = 256 << 10
_PLACE = re.compile(r"(cpp_sources|cuda_sources)(?:\[(\d{1,4})\])?")


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
    # Of a text that is longer than any real one, finding the places takes many seconds.
    places = (
        _Places(source)
        if len(source) <= _PLACED_CHARS and any(_PLACE.fullmatch(one["file"] or "") for one in diagnostics)
        else None
    )
    elsewhere = []
    for one in diagnostics:
        at = places.find(one["file"], one["line"]) if places is not None else None
        if at is None or not _note(lines, at, Note(one["severity"], one["message"], one["hint"])):
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


@dataclass(frozen=True)
class _Text:
    """A string in the file."""

    first: int
    """The line that it begins on."""
    lines: list[str]


class _Places:
    """Where the texts that are compiled stand in the file."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._texts: dict[tuple[str, int], list[_Text]] = {}
        try:
            tree = parse_source(source)
        except SourceSyntaxError:
            return
        bound: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        bound.setdefault(target.id, []).append(node.value)
        self._bound = {name: values[0] for name, values in bound.items() if len(values) == 1}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if keyword.arg in ("cpp_sources", "cuda_sources"):
                        for index, text in enumerate(self._strings(keyword.value)):
                            if text is not None:
                                self._texts.setdefault((keyword.arg, index), []).append(text)

    def _strings(self, value: ast.expr) -> Iterator[_Text | None]:
        for one in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            found = self._bound.get(one.id) if isinstance(one, ast.Name) else one
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                yield _Text(found.lineno, found.value.split("\n"))
            else:
                yield None

    def find(self, file: str | None, line: int | None) -> int | None:
        """The line of the file that is this line of a compiled text; None when that is not clear."""
        match = _PLACE.fullmatch(file or "")
        if match is None or line is None or line < 1:
            return None
        found = {at for text in self._texts.get((match[1], int(match[2] or 0)), ()) if (at := self._line(text, line))}
        return found.pop() if len(found) == 1 else None

    def _line(self, text: _Text, line: int) -> int | None:
        if line > len(text.lines):
            return None
        # A string that begins with a backslash begins on the line below. Other escapes can shift lines as well, so the
        # line has to be the same text.
        told = text.lines[line - 1].strip()
        for at in (text.first + line - 1, text.first + line):
            if told and at <= len(self._lines) and told in self._lines[at - 1]:
                return at
        return None
