"""PROBLEM and SUBMISSION as they were typed: swapped, misspelt or a folder is said before anything is graded.

What is not found here goes on to the engine, which has sentences of its own for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from harness.cli.streams import WrongUse

_MAX_BYTES = 4 << 20


def check_arguments(problem: str, submission: str) -> str:
    """Where the problem is. Raises WrongUse."""
    if _is_submission(Path(problem)) or (Path(problem).is_file() and Path(submission).is_dir()):
        raise WrongUse(
            f"PROBLEM and SUBMISSION seem swapped ({problem} in the problem's place): name the problem first, "
            "then the submission's .py file."
        )
    if Path(submission).is_dir():
        raise WrongUse(f"the submission {submission} is a folder: name the .py file in it that defines ModelNew.")
    return check_problem(problem)


def check_problem(problem: str) -> str:
    """Where it is: of one in problems/ the name is enough. Raises WrongUse, with the one that was probably meant."""
    if Path(problem).exists():
        return problem
    named = Path("problems", problem)
    if Path(problem).name == problem and (named / "problem.toml").is_file():
        return str(named)
    if meant := _nearest(Path(problem)):
        raise WrongUse(f"there is no problem at {problem}; {meant} was probably meant.")
    return problem


def _is_submission(path: Path) -> bool:
    """Whether a file defines ModelNew and no Model."""
    if path.suffix != ".py" or not path.is_file() or path.stat().st_size > _MAX_BYTES:
        return False
    from harness.load.pysource import SourceSyntaxError, parse_source, top_level_names

    try:
        names = top_level_names(parse_source(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError, SourceSyntaxError):
        return False
    return "ModelNew" in names and not names & {"Model", "*"}


def _nearest(path: Path) -> Path | None:
    """The problem whose folder has that name, or nearly: beside the path, or in problems/."""
    found = {folder.name: folder for folder in (*_problems(Path("problems")), *_problems(path.parent))}
    names = difflib.get_close_matches(path.name, found, n=1)
    return found[names[0]] if names else None


def _problems(folder: Path) -> Iterator[Path]:
    return (toml.parent for toml in sorted(folder.glob("*/problem.toml")))
