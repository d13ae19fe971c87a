"""KernelBench's form: reference.py with a problem.toml beside it, or the file alone with defaults for all else."""

from __future__ import annotations

from pathlib import Path

from harness.formats.files import read
from harness.load.problem import Problem
from harness.load.reference import ReferenceText
from harness.load.spec import ProblemError, ProblemSpec, parse_spec

NAME = "kernelbench"


def load(path: Path) -> Problem:
    """Raises ProblemError."""
    if not path.is_dir():
        return Problem.of(path.stem, path, ProblemSpec(), ReferenceText.read(read(path), str(path)), statement=None)
    toml, reference, readme = path / "problem.toml", path / "reference.py", path / "README.md"
    spec = parse_spec(read(toml), str(toml))
    if not reference.is_file():
        raise ProblemError(f"The folder {path} has no reference.py; add it, with Model, get_inputs and so on.")
    text = ReferenceText.read(read(reference), str(reference))
    return Problem.of(path.name, path, spec, text, statement=read(readme) if readme.is_file() else None)
