"""The KernelBench-style sample problems, and the submissions that go with them."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "kernelbench"

NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.endswith("_wrong")))
"""Every sample: NAME.py is the problem, NAME_wrong.py a submission that is subtly wrong."""


def problem_path(name: str) -> Path:
    """The problem file of a sample."""
    return FOLDER / f"{name}.py"


def wrong_path(name: str) -> Path:
    """The subtly wrong submission of a sample."""
    return FOLDER / f"{name}_wrong.py"


def identity_source(source: str) -> str:
    """The reference as its own submission: ``Model`` renamed to ``ModelNew``, strings and comments as they are."""
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token in reversed(tokens):  # from the end, so that earlier columns stay where they are
        if token.type == tokenize.NAME and token.string == "Model":
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + "ModelNew" + line[column + len("Model") :]
    return "".join(lines)
