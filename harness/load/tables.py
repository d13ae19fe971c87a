"""Tables in TOML that name files and what is to come of them: read, held against a model, and told about in one way."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

_T = TypeVar("_T")


def read_table(path: Path, kind: TypeAdapter[_T], failure: type[Exception]) -> _T:
    """The table in a file. Raises `failure`, with where and what to do, for one that can't be read or is none."""
    try:
        return kind.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise failure(f"{path} cannot be read ({error.strerror or error}); check the path.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise failure(f"{path}: {place}: {first['msg']}; correct the entry.") from None
    except (ValueError, RecursionError) as error:
        raise failure(f"{path} is not UTF-8 TOML that can be read: {error}; correct that line.") from None
