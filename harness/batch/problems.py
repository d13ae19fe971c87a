"""The problems of a batch, found by the names that submissions use for them.

softmax                  a problem's id: its folder's name, or its file's stem
level1/1_square          the same with the folder that it is in, where two share an id
level 1, problem 1       KernelBench's numbers: the file `level1/1_....py`
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.formats import is_problem
from harness.load.problem import Problem, ProblemError

_LEVEL = re.compile(r"level[_-]?(\d{1,4})", re.IGNORECASE)
_NUMBER = re.compile(r"(\d{1,6})_")


class NoProblem(Exception):
    """No problem, or not one alone, goes by that name. The message is one plain sentence."""


@dataclass(frozen=True)
class Named:
    """A problem, and what it is called in this batch."""

    name: str
    """The id; with the folder before it where two problems share an id."""
    level: int | None
    """From the folder's name, as in `level1`; None where it has no such name."""
    problem: Problem


class ProblemIndex:
    """Looks problems up."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """The same path twice is one problem."""
        distinct = list({problem.path: problem for problem in problems}.values())
        shared = Counter(problem.id for problem in distinct)
        self.named = tuple(
            Named(_qualified(each) if shared[each.id] > 1 else each.id, _level(each), each) for each in distinct
        )
        self._by_name: dict[str, list[Named]] = defaultdict(list)
        self._by_number: dict[tuple[int, int], list[Named]] = defaultdict(list)
        for each in self.named:
            for name in {each.name, each.problem.id, _qualified(each.problem)}:
                self._by_name[name].append(each)
            number = _NUMBER.match(each.problem.id)
            if each.level is not None and number is not None:
                self._by_number[each.level, int(number[1])].append(each)

    def by_name(self, name: str) -> Named:
        """The problem of that name; a file's suffix does no harm. Raises NoProblem."""
        wanted = name.strip().removesuffix("/").removesuffix(".py")
        found = self._by_name.get(wanted, [])
        if not found:
            near = difflib.get_close_matches(wanted, self._by_name, n=1, cutoff=0.6)
            advice = f"; the nearest is {near[0]!r}" if near else ""
            raise NoProblem(f"none of the {len(self.named)} problems given is called {wanted[:100]!r}{advice}")
        return _single(found, repr(wanted))

    def by_number(self, level: int, number: int) -> Named:
        """KernelBench's problem of that number. Raises NoProblem."""
        found = self._by_number.get((level, number), [])
        if not found:
            raise NoProblem(
                f"none of the problems given is number {number} of level {level}: there is no file "
                f"level{level}/{number}_....py among them"
            )
        return _single(found, f"number {number} of level {level}")

    def only(self) -> Named | None:
        """The problem, where there is but one."""
        return self.named[0] if len(self.named) == 1 else None


def find_problems(paths: Sequence[Path]) -> Iterator[tuple[Path, Problem | str]]:
    """Every problem at or below those paths, or the sentence that says why it can't be loaded.

    Below a folder: folders that are problems of any format, the definitions of a data set, and Python files in it and
    in its `levelN` folders.
    """
    seen: set[Path] = set()
    for path in paths:
        for place in _places(path):
            if place.resolve() in seen:
                continue
            seen.add(place.resolve())
            try:
                yield place, Problem.load(place)
            except ProblemError as error:
                yield place, str(error)


def _places(path: Path) -> Iterator[Path]:
    if not path.is_dir() or is_problem(path):
        yield path
        return
    if (path / "definitions").is_dir():  # a flashinfer-bench data set
        yield from sorted((path / "definitions").rglob("*.json"))
        return
    for child in sorted(path.iterdir()):
        if child.is_dir() and is_problem(child):
            yield child
        elif child.is_dir() and _LEVEL.fullmatch(child.name):
            yield from _places(child)
        elif child.suffix == ".py" and child.is_file() and not child.name.startswith("_"):
            yield child


def _single(found: list[Named], what: str) -> Named:
    if len(found) > 1:
        raise NoProblem(f"{what} may be any of {', '.join(each.name for each in found)}; name one of them")
    return found[0]


def _qualified(problem: Problem) -> str:
    return f"{problem.path.parent.name}/{problem.id}"


def _level(problem: Problem) -> int | None:
    match = _LEVEL.fullmatch(problem.path.parent.name)
    return None if match is None else int(match[1])
