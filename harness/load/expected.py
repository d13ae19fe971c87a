"""submissions/expected.toml: how each example submission must end. Data, so that a program can hold the grader to it.

```toml
[[submission]]
file = "recurrence_v0.py"
problem = "linear_recurrence"
device = "cuda"
verdict = "runtime_error"
reason = "cuda.launch_failed"
```
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from harness.load.tables import read_table


class ExpectedError(Exception):
    """expected.toml cannot be used; the message is one plain sentence."""


class ExpectedSubmission(BaseModel):
    """One line of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: str = Field(min_length=1)
    """Relative to the folder of expected.toml."""
    problem: str = Field(min_length=1)
    """The problem's id: a folder name under problems/."""
    device: Literal["cuda", "cpu"]
    verdict: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    """The reason code, ``area.what``."""
    workload: str | None = None
    """None: the problem's default for the kind of device."""
    note: str = ""
    """What the example teaches."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    submission: Annotated[tuple[ExpectedSubmission, ...], Field(strict=False)]


_TABLE = TypeAdapter(_Table)


def load_expected(path: Path | str) -> tuple[ExpectedSubmission, ...]:
    """Read the table and check that its files exist and are named once for each device. Raises ExpectedError."""
    path = Path(path)
    table = read_table(path, _TABLE, ExpectedError)
    for entry in table.submission:
        if not (path.parent / entry.file).is_file():
            raise ExpectedError(f"{path} names {entry.file!r}, which does not exist beside it; correct the name.")
    counts = Counter((entry.file, entry.problem, entry.device, entry.workload) for entry in table.submission)
    twice = [key for key, count in counts.items() if count > 1]
    if twice:
        raise ExpectedError(f"{path} names {twice[0][0]!r} twice for one problem and device; remove one entry.")
    return table.submission
