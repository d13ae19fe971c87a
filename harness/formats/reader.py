"""What a format's module has to have."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from harness.load.problem import Problem


class Reader(Protocol):
    """One format of problems."""

    NAME: str

    def load(self, path: Path) -> Problem:
        """Read it, running nothing of it. Raises ProblemError."""
