"""The command line in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cli.main import main


@pytest.fixture
def harness(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run the command line on arguments: exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(part) for part in argv])
        out, err = capfd.readouterr()
        return code, out, err

    return run
