"""An author's files as text, and documents in them as models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.load.spec import ProblemError

_T = TypeVar("_T", bound=BaseModel)
_MAX_BYTES = 4 << 20


def place_of(parts: Iterable[int | str]) -> str:
    """Where in a document something is, in one line: `inputs.x.dtype`. Its keys may be anything."""
    return ".".join(str(part) for part in parts).encode("unicode_escape").decode()[:200]


def read(path: Path, limit: int = _MAX_BYTES) -> str:
    """The text of a problem's file, with ``\\n`` line ends. Raises ProblemError."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProblemError(f"{path} cannot be read ({reason}); check the file.") from None
    if len(data) > limit:
        raise ProblemError(f"{path} is larger than {limit >> 20} MiB; make it a text of a few pages.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def validated(model: type[_T], document: Any, where: str) -> _T:
    """A document as that model. Raises ProblemError, which names the key of the first fault."""
    try:
        return model.model_validate(document)
    except (ValidationError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            raise ProblemError(f"{where} is nested too deeply; make it flat.") from None
        first = error.errors(include_url=False)[0]
        key = place_of(first["loc"])
        message = str(first["msg"]).removeprefix("Value error, ")
        place = f"{where}: {key}" if key else where
        raise ProblemError(f"{place}: {message[:1].lower()}{message[1:]}; correct it.") from None
