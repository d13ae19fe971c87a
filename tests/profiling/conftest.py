"""A problem that takes no time, and a submission for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from profile_samples import REFERENCE, RIGHT, TOML


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """Softmax of a small product."""
    folder = tmp_path / "product"
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "problem.toml").write_text(TOML)
    return folder


@pytest.fixture
def submission(tmp_path: Path) -> Callable[..., Path]:
    """Write a submission; the right one unless another is given."""

    def write(source: str = RIGHT) -> Path:
        path = tmp_path / "answer.py"
        path.write_text(source)
        return path

    return write
