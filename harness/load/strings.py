"""Where a string that a submission hands over stands in its own text: for what compilers and tools say of its lines.

They count lines within the string. A string of one literal begins on the literal's first line, or after a backslash on
the next; escapes can shift lines further, so the line has to be the same text. What can't be placed without doubt is
not placed.
"""

from __future__ import annotations

import ast
import functools

from harness.load.pysource import SourceSyntaxError, parse_source

_MOST_CHARS = 256 << 10
"""Of a text that is longer than any real one, finding the places takes many seconds."""


class Strings:
    """The literals of one text."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = source.split("\n")

    @functools.cached_property
    def _starts(self) -> dict[str, list[int]]:
        """Every literal, and the lines on which it begins. Only made when it is asked for: most builds say nothing."""
        found: dict[str, list[int]] = {}
        if len(self._source) > _MOST_CHARS:
            return found
        try:
            tree = parse_source(self._source)
        except SourceSyntaxError:
            return found
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.setdefault(node.value, []).append(node.lineno)
        return found

    def line(self, text: str, line: int) -> int | None:
        """The line, from 1, of the whole that is line `line` of the string `text`; None where that is not clear."""
        lines = text.split("\n")
        if not 1 <= line <= len(lines):
            return None
        wanted = lines[line - 1].strip()
        found = {at for start in self._starts.get(text, ()) if (at := self._at(wanted, start + line - 1)) is not None}
        return found.pop() if len(found) == 1 else None

    def _at(self, wanted: str, number: int) -> int | None:
        for at in (number, number + 1):
            if wanted and at <= len(self._lines) and wanted in self._lines[at - 1]:
                return at
        return None
