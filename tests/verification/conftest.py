"""Locks of the tests' own, and a verification in a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import broken
import pytest

from harness import Verification, verify

Verified = Callable[..., Verification]


@pytest.fixture(autouse=True)
def locks(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's grading is waited for, but on a GPU."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def verified(tmp_path: Path) -> Verified:
    """Write the problem with something changed and verify it on the CPU, without grading."""

    def run(returned: str = broken.RETURNED, toml: str = broken.TOML, **replaced: str) -> Verification:
        path = broken.write(tmp_path, returned, toml, **replaced)
        return verify(path, device="cpu", examples=False, seed=1 << 70)

    return run
