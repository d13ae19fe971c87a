"""`make`: what it says on a machine that lacks something, and that it does nothing twice."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PREPARE = ROOT / "scripts" / "prepare.py"


@pytest.fixture
def prepare() -> dict[str, Any]:
    """The script's functions."""
    return runpy.run_path(str(PREPARE))


def with_path(tmp_path: Path, *programs: str) -> dict[str, str]:
    """An environment in which only these programs are found."""
    for program in programs:
        (tmp_path / program).symlink_to(shutil.which(program) or "/missing")
    return {"PATH": str(tmp_path)}


def test_an_old_python_is_named_with_what_to_do(prepare, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert prepare["wrong_python"]() == (
        "Python 3.11 or newer is needed and this is 3.9.2; name another one: make PYTHON=python3.12"
    )


def test_a_machine_without_a_compiler_gets_a_sentence_and_no_environment(tmp_path):
    env = with_path(tmp_path)
    done = subprocess.run(
        [sys.executable, PREPARE, tmp_path / "venv"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "prepare: there is no C++ compiler; install one (Debian, Ubuntu: apt-get install g++).\n"
    assert not (tmp_path / "venv").exists()


def test_a_compiler_that_cxx_names_must_be_there(prepare, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    assert "no-such-compiler" in prepare["no_compiler"]()


def test_make_without_python_says_which(tmp_path):
    env = with_path(tmp_path, "make", "sh")
    done = subprocess.run(
        ["make", "ready", "PYTHON=python3.99"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "there is no python3.99" in done.stderr


def test_this_interpreter_can_be_used_as_it_is(prepare):
    assert prepare["missing_modules"]() is None


def test_a_prepared_environment_is_left_alone(prepare, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".prepared.json").write_text(prepare["fingerprint"]())

    def fail(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "run", fail)
    assert prepare["prepare"](tmp_path) is None


def test_the_script_needs_no_new_python_to_say_so():
    """Nothing newer than Python 3.6 can read: an old interpreter must get as far as the sentence."""
    import ast

    ast.parse(PREPARE.read_text(), feature_version=(3, 6))


def test_the_ci_script_is_executable():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
