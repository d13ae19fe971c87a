"""Submissions from folders and JSONL files. What can't be used is told with its place, and the rest goes on.

DIR           every *.py below it, and every *.json where a problem takes solutions; the path within it is the id
FILE.jsonl    a line each: {"id": ..., "problem": ..., "source": "..."} or {"id": ..., "path": "..."}
FILE.py       one submission
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.batch.naming import problem_of
from harness.batch.problems import Named, NoProblem, ProblemIndex
from harness.load.submission import MAX_BYTES

MAX_LINE_BYTES = 16 << 20
"""A source of 1 MiB in JSON's longest spelling takes six bytes a character; more than this is no submission."""

MAX_ID = 400
"""Characters of an id."""


@dataclass(frozen=True)
class Entry:
    """One submission that can be graded."""

    id: str
    """Unique within a batch."""
    problem: Named
    name: str
    """What the file is called, or would be."""
    path: str | None
    """Where it was read from; None when it came as text."""
    content: bytes = field(repr=False)
    """Its bytes, whatever they are; of a file that is too large only as many as show that."""
    sha256: str
    """Of all of its bytes."""


@dataclass(frozen=True)
class BadInput:
    """Something that can't be graded, and why."""

    place: str
    """A path, with the number of the line in a JSONL file."""
    message: str
    """One plain sentence."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    id: str | int | None = None
    problem: str | None = Field(default=None, min_length=1)
    source: str | None = None
    path: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_text(self) -> _Line:
        if (self.source is None) == (self.path is None):
            raise ValueError("a line has either source or path")
        return self


def read_submissions(paths: Sequence[Path], index: ProblemIndex) -> Iterator[Entry | BadInput]:
    """All submissions, in a fixed order. An id that was used already makes the later one a BadInput."""
    seen: dict[str, str] = {}
    for path in paths:
        for place, found in _read(path, index):
            if isinstance(found, Entry):
                if found.id in seen:
                    yield BadInput(place, f"the id {found.id[:100]!r} is that of {seen[found.id]} already")
                    continue
                seen[found.id] = place
            yield found


def _read(path: Path, index: ProblemIndex) -> Iterator[tuple[str, Entry | BadInput]]:
    if path.is_dir():
        # Of problems that take none, a .json is something else: KernelBench keeps its results beside the kernels.
        solutions = any(each.problem.calling.solutions for each in index.named)
        found = sorted([*path.rglob("*.py"), *(path.rglob("*.json") if solutions else ())])
        files = [file for file in found if not _hidden(file.relative_to(path))]
        if not files:
            yield str(path), BadInput(str(path), "there is no Python file in it")
        for file in files:
            yield str(file), _from_file(file, file.relative_to(path).as_posix(), None, index, str(file))
    elif path.suffix in (".jsonl", ".ndjson"):
        yield from _lines(path, index)
    elif path.is_file():
        yield str(path), _from_file(path, path.name, None, index, str(path))
    else:
        yield str(path), BadInput(str(path), "there is no such folder or file")


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def _lines(path: Path, index: ProblemIndex) -> Iterator[tuple[str, Entry | BadInput]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                place = f"{path}:{number}"
                if len(line) > MAX_LINE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE_BYTES)
                    yield place, BadInput(place, f"the line is longer than {MAX_LINE_BYTES >> 20} MiB")
                elif line.strip():
                    yield place, _from_line(line, place, path, number, index)
    except OSError as error:
        yield str(path), BadInput(str(path), f"it can't be read ({error.strerror or error})")


def _from_line(raw: bytes, place: str, path: Path, number: int, index: ProblemIndex) -> Entry | BadInput:
    try:
        line = _Line.model_validate(_object(raw))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = str(first["msg"]).removeprefix("Value error, ")
        return BadInput(place, f"{where}: {message}" if where else message)
    except (ValueError, RecursionError) as error:
        return BadInput(place, f"it is no JSON object in UTF-8: {error}")
    identifier = str(line.id) if line.id is not None else f"{path.name}:{number}"
    if line.path is not None:
        return _from_file(path.parent / line.path, identifier, line.problem, index, place)
    assert line.source is not None
    # Half a surrogate pair is no text; the grading says so, with the position.
    content = line.source.encode("utf-8", "surrogatepass")
    name = identifier if identifier.endswith(".py") else f"{identifier}.py"
    return _entry(
        identifier,
        named=line.problem,
        label=identifier,
        name=Path(name).name,
        path=None,
        content=content,
        digest=hashlib.sha256(content).hexdigest(),
        index=index,
        place=place,
    )


def _object(raw: bytes) -> dict[str, Any]:
    found = json.loads(raw.decode("utf-8-sig"))
    if not isinstance(found, dict):
        raise ValueError("it is something else")
    return found


def _from_file(file: Path, identifier: str, named: str | None, index: ProblemIndex, place: str) -> Entry | BadInput:
    try:
        if not file.is_file():
            return BadInput(place, f"{file} is not a file")
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
            opened.seek(0)
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        return BadInput(place, f"{str(file)!r} can't be read ({getattr(error, 'strerror', None) or error})")
    return _entry(
        identifier,
        named=named,
        label=f"{identifier} {file.name}",
        name=file.name,
        path=str(file),
        content=content,
        digest=digest,
        index=index,
        place=place,
    )


def _entry(
    identifier: str,
    *,
    named: str | None,
    label: str,
    name: str,
    path: str | None,
    content: bytes,
    digest: str,
    index: ProblemIndex,
    place: str,
) -> Entry | BadInput:
    if not identifier.isprintable() or not identifier.strip() or len(identifier) > MAX_ID:
        return BadInput(place, f"its id has to be printable text of at most {MAX_ID} characters")
    try:
        problem = problem_of(index, named=named, content=content, label=label)
    except NoProblem as error:
        return BadInput(place, f"{error}.")
    return Entry(identifier, problem, name, path, content[: MAX_BYTES + 1], digest)
