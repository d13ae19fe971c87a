"""Write the first files of a problem or a submission; what is there already is left alone unless told otherwise."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Literal

from harness.load.problem import Problem, ProblemError
from harness.scaffold import problem_texts, submission_texts

_NOT_FOR_SUBMISSIONS = ("get_inputs", "get_init_inputs")


class ScaffoldError(Exception):
    """Nothing was written; the message is one plain sentence."""


def new_problem(name: str, folder: Path | str = "problems", *, force: bool = False) -> list[Path]:
    """Write `folder`/`name` with problem.toml, reference.py and README.md, and return their paths.

    Raises ScaffoldError for a name that can't be an id, and, without `force`, where one of the files exists.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise ScaffoldError(f"{name!r} can't be a problem's name: write letters, digits, '_', '-' and '.', 64 at most.")
    title = re.sub(r"[_.-]+", " ", name).strip().capitalize() or name
    texts = {
        "problem.toml": problem_texts.TOML,
        "reference.py": problem_texts.REFERENCE,
        "README.md": problem_texts.README,
    }
    target = Path(folder) / name
    return _write({target / file: text.replace("@TITLE@", title) for file, text in texts.items()}, force)


def new_submission(
    problem: Problem | Path | str, file: Path | str, *, kind: Literal["cpu", "cuda"], force: bool = False
) -> Path:
    """Write a submission for a problem, with an extension in C++ (`cpu`) or CUDA (`cuda`), and return its path.

    Raises ProblemError for a problem that can't be loaded, and ScaffoldError, without `force`, where the file exists.
    """
    problem = problem if isinstance(problem, Problem) else Problem.load(problem)
    if problem.format != "kernelbench":
        raise ProblemError(
            f"A submission to {problem.id} has the form of {problem.format}, which there is no scaffold for; "
            "docs/formats.md shows one."
        )
    path = Path(file)
    if path.suffix != ".py":
        raise ScaffoldError(f"{path} is no Python file: name one that ends in .py.")
    name = re.sub(r"\W", "_", f"{path.stem}_{kind}", flags=re.ASCII)
    name = name if name[0].isalpha() else f"submission_{name}"
    text = (
        submission_texts.HEAD.replace("@ID@", problem.id)
        + "\n"
        + _model_of(problem.reference_source)
        + submission_texts.IMPORTS
        + submission_texts.EXTENSION[kind].replace("@NAME@", name)
        + submission_texts.MODEL
    )
    (written,) = _write({path: text}, force)
    return written


def _model_of(source: str) -> str:
    """The reference's text without the functions that make inputs: a submission is given its inputs."""
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef) and node.name in _NOT_FOR_SUBMISSIONS:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            del lines[first - 1 : node.end_lineno]
    return "\n".join(lines).strip("\n") + "\n"


def _write(texts: dict[Path, str], force: bool) -> list[Path]:
    """All or, where one is in the way, none."""
    in_the_way = [str(path) for path in texts if path.exists()]
    if in_the_way and not force:
        exist, them = ("exists", "it") if len(in_the_way) == 1 else ("exist", "them")
        raise ScaffoldError(f"{', '.join(in_the_way)} {exist} already; name another, or say --force to replace {them}.")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ScaffoldError(f"{path} can't be written ({error.strerror or error}); name another place.") from None
    return list(texts)
