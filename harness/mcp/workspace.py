"""What a client may name: problems that were there at the start, and submissions below one folder.

A client is a model, and what it sends may come from anywhere. A name is looked up and never becomes a path. Problems
are read once, at the start: a reference runs on the trusted side, so it must not be possible to write one and name it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.batch.problems import Named, NoProblem, ProblemIndex, find_problems
from harness.problem import Problem, ProblemError
from harness.submission import MAX_BYTES


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
            raise NotUsable("Give the submission either as source, the whole text, or as path, not both.")
        if source is not None:
            # Half a surrogate pair is no text; the grading says so, with the position.
            return _limited("submission.py", source.encode("utf-8", "surrogatepass"))
        assert path is not None
        return _limited(Path(path).name, self._read(path))

    def _read(self, path: str) -> bytes:
        wanted = Path(self.root, path)
        try:
            # Without waiting: a pipe that nobody writes to would hold us.
            descriptor = os.open(wanted, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise NotUsable(
                f"{path[:200]!r} can't be read ({reason}). Paths are relative to {self.root}; or give source instead."
            ) from None
        try:
            # What was opened, whatever the links on the way to it say by now.
            real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if not real.is_relative_to(self.root):
                raise NotUsable(
                    f"{path[:200]!r} is not below {self.root}, and only what is can be read. Give source instead."
                )
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotUsable(f"{path[:200]!r} is not a file. Name a Python file, or give source instead.")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)


def _limited(name: str, content: bytes) -> Text:
    if len(content) > MAX_BYTES:
        raise NotUsable(f"The submission is larger than {MAX_BYTES >> 20} MiB; a submission is source text only.")
    return Text(name, content)
