"""The problems that a server or an agent has, read once, when it starts.

A name that came with a request is looked up here and never becomes a path.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.formats import is_problem
from harness.load.problem import Problem, ProblemError

_SHOWN = 20


class Catalogue(Mapping[str, Problem]):
    """Problems by id."""

    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self._problems = dict(problems)

    @classmethod
    def load(cls, folder: Path) -> Catalogue:
        """Every problem folder in a folder. Raises ProblemError: a broken problem is better seen than left out."""
        if not folder.is_dir():
            raise ProblemError(f"There is no folder {folder}; name the one that holds the problem folders.")
        found = [Problem.load(path) for path in sorted(folder.iterdir()) if path.is_dir() and is_problem(path)]
        if not found:
            raise ProblemError(
                f"No problem is in {folder}: none of its folders has a problem.toml; name another folder."
            )
        return cls({problem.id: problem for problem in found})

    @property
    def versions(self) -> dict[str, str]:
        """The version of each."""
        return {name: problem.version for name, problem in self._problems.items()}

    def no_such(self, name: str) -> str:
        """A sentence for whoever asked for a problem that is not here."""
        near = difflib.get_close_matches(name[:100], self._problems, n=1)
        if near:
            return f"There is no such problem; {near[0]} was probably meant."
        shown = ", ".join([*self._problems][:_SHOWN]) + (", ..." if len(self._problems) > _SHOWN else "")
        return f"There is no such problem; there are {shown}. One that was added since needs a new start of the server."

    def __getitem__(self, name: str) -> Problem:
        return self._problems[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._problems)

    def __len__(self) -> int:
        return len(self._problems)
