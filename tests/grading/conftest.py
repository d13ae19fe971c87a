"""A tiny problem, and gradings after which nothing may be left: no process, no descriptor, no file."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tiny import REFERENCE, TOML

from harness import Report, grade
from harness.cli.main import main

ProblemFolder = Callable[..., Path]
Graded = Callable[..., Report]


@pytest.fixture
def problem_folder(tmp_path: Path) -> ProblemFolder:
    """Write a problem; None leaves a file out."""

    def write(reference: str | None = REFERENCE, toml: str | None = TOML) -> Path:
        folder = tmp_path / "doubled_relu"
        folder.mkdir(exist_ok=True)
        for name, text in (("reference.py", reference), ("problem.toml", toml)):
            (folder / name).unlink(missing_ok=True)
            if text is not None:
                (folder / name).write_text(text)
        return folder

    return write


@pytest.fixture
def submission_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Write a submission."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "answer.py"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail when the test leaves a process, an open descriptor or a temporary file behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    gc.collect()
    descriptors = open_descriptors()
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert not left, f"still running: {left}"
    gc.collect()
    assert open_descriptors() - descriptors == set()
    assert list(scratch.iterdir()) == []


@pytest.fixture
def graded(problem_folder: ProblemFolder, submission_file: Any, nothing_left: None) -> Graded:
    """Check a submission on the CPU, with nothing left afterwards."""

    def run(source: str | bytes, *, reference: str = REFERENCE, toml: str = TOML, **options: Any) -> Report:
        options = {"device": "cpu", "mode": "check"} | options
        return grade(problem_folder(reference, toml), submission_file(source), **options)

    return run


@pytest.fixture
def harness(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line on arguments: exit code, stdout, stderr."""

    def run(*argv: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(part) for part in argv])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def open_descriptors() -> set[str]:
    """This process's descriptors, each with what it is, so that a number that is used again counts as new."""
    found = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:  # the listing's own
            continue
        if re.search(r"/scratch/#\d+ \(deleted\)$", target):  # a file without a name: pytest's own, for capturing
            continue
        found.add(f"{entry} -> {target}")
    return found
