"""What a client may name: problems that were there at the start, and submissions below one folder.

A client is a model, and what it sends may come from anywhere. A name is looked up and never becomes a path. A path is
followed below the folder alone (beneath.py): what is elsewhere can be neither read nor found out. Problems
are read once, at the start: a reference runs on the trusted side, so it must not be possible to write one and name it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.batch.problems import Named, NoProblem, ProblemIndex, find_problems
from harness.cli.text import one_line
from harness.load.problem import Problem, ProblemError
from harness.load.submission import MAX_BYTES
from harness.mcp.beneath import Outside, Unreadable, read_beneath


class NotUsable(Exception):
    """An argument that can't be used. The message is a sentence for the client: what is wrong, what to do."""


@dataclass(frozen=True)
class Text:
    """A submission."""

    name: str
    content: bytes = field(repr=False)


class Workspace:
    """The folder and the problems of one server."""

    def __init__(self, root: Path, problems: Sequence[Path]) -> None:
        """Raises ProblemError when there is no such folder or no problem."""
        if not root.is_dir():
            raise ProblemError(f"There is no folder {root}; name with --root the one that submissions are read from.")
        self.root = root.resolve()
        self._spellings = (Path(os.path.abspath(root)),)
        found = [problem for _, problem in find_problems(problems)]
        loaded = [problem for problem in found if isinstance(problem, Problem)]
        if not loaded:
            why = next((problem for problem in found if isinstance(problem, str)), "name a folder that holds problems.")
            raise ProblemError(f"There is no problem that can be used: {why}")
        self.broken = [problem for problem in found if isinstance(problem, str)]
        self._index = ProblemIndex(loaded)

    @property
    def problems(self) -> Sequence[Named]:
        """All of them."""
        return self._index.named

    def problem(self, name: str) -> Named:
        """Raises NotUsable."""
        try:
            return self._index.by_name(name)
        except NoProblem as error:
            raise NotUsable(f"{error}. Call the tool problem without a name for the list.") from None

    def submission(self, source: str | None, path: str | None) -> Text:
        """The text itself, or a file below the folder. Raises NotUsable."""
        if (source is None) == (path is None):
            raise NotUsable("Give the submission as source, the whole text, or as path: one of the two, and not both.")
        if source is not None:
            # Half a surrogate pair is no text; the grading says so, with the position.
            return _limited("submission.py", source.encode("utf-8", "surrogatepass"))
        assert path is not None
        return _limited(one_line(Path(path).name), self._read(path))

    def _read(self, path: str) -> bytes:
        try:
            return read_beneath(self.root, path, MAX_BYTES + 1, self._spellings)
        except Outside:
            raise NotUsable(
                f"{path[:200]!r} is not below the server's folder, and only what is can be read. Give source instead."
            ) from None
        except Unreadable as error:
            raise NotUsable(
                f"{path[:200]!r} can't be read ({error}). Name a Python file, relative to the server's folder; or give "
                "source instead."
            ) from None


def _limited(name: str, content: bytes) -> Text:
    if len(content) > MAX_BYTES:
        raise NotUsable(f"The submission is larger than {MAX_BYTES >> 20} MiB; a submission is source text only.")
    return Text(name, content)
