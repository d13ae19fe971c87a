"""The command line in this process, with an engine that grades nothing."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import cli_fakes
import pytest

from harness.cli.main import main
from harness.report import Report

Install = Callable[..., cli_fakes.FakeEngine]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a fake engine in the place of the real one; it returns or raises what it is given."""

    def install(outcome: Report | BaseException, *events: object) -> cli_fakes.FakeEngine:
        fake = cli_fakes.FakeEngine(outcome, events)
        module = types.ModuleType("harness.grading.grader")
        module.grade = fake  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "harness.grading.grader", module)
        return fake

    return install


@pytest.fixture
def harness(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run the command line on arguments: exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(argv)
        out, err = capfd.readouterr()
        return code, out, err

    return run
