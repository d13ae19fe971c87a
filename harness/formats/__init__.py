"""The formats that problems are written in, each read by a module of its own into the one `Problem`.

    path --> the first reader that knows it --> Problem

    kernelbench   a folder with problem.toml and reference.py, or a Python file: Model, get_inputs, get_init_inputs
    gpumode       a folder with task.yml: ref_kernel, generate_input, check_implementation
    flashinfer    a definition in JSON with its workloads, of flashinfer-bench or SOL-ExecBench

What a format can't say is a note on the problem, and never guessed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.load.problem import Problem
from harness.load.spec import ProblemError

if TYPE_CHECKING:
    from harness.formats.reader import Reader


@dataclass(frozen=True)
class _Format:
    """One format, told by names alone: what reads it is imported when there is something to read."""

    module: str
    marker: str
    """The file that makes a folder a problem of this format."""
    is_file: Callable[[Path], bool]
    """Whether something that is no folder is one."""

    def knows(self, path: Path) -> bool:
        return (path / self.marker).is_file() if path.is_dir() else self.is_file(path)

    @property
    def reader(self) -> Reader:
        reader: Reader = importlib.import_module(f"harness.formats.{self.module}")
        return reader


_FORMATS = (
    _Format("kernelbench", "problem.toml", lambda path: path.suffix == ".py"),
    _Format("gpumode", "task.yml", lambda path: path.name == "task.yml" and path.is_file()),
    _Format("flashinfer", "definition.json", lambda path: path.suffix == ".json" and path.is_file()),
)


def load(path: Path | str) -> Problem:
    """Read a problem. Raises ProblemError for what is none, in one plain sentence."""
    path = Path(path)
    try:
        path = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise ProblemError(f"There is no problem at {str(path)!r}; give a folder or a .py file.") from None
    for each in _FORMATS:
        if each.knows(path):
            return each.reader.load(path)
    if path.is_dir():
        raise ProblemError(
            f"The folder {path} has no problem.toml; add one (an empty file will do) or name another folder. "
            "A task.yml (GPU MODE) or a definition.json (SOL-ExecBench) would do as well."
        )
    raise ProblemError(f"{path} is neither a folder nor a .py file; give a folder or a KernelBench file.")


def is_problem(path: Path) -> bool:
    """Whether a path is a problem in any of the formats, as far as names show; KernelBench's files are only asked for
    their suffix."""
    return any(each.knows(path) for each in _FORMATS)
