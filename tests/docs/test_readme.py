"""README.md: its commands are commands, its Python is Python, its links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import harness
from harness.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()


def test_every_command_exists_and_what_it_names_is_there(capfd):
    commands = set(re.findall(r"^harness +(\S+)", TEXT, re.MULTILINE))
    assert {"run", "check", "compile"} <= commands
    for command in commands:
        assert main([command, "--help"]) == 0
    for path in re.findall(r"(?:problems|submissions)/[\w.]+", TEXT):
        assert (ROOT / path).exists(), path


def test_every_make_target_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_python_example_uses_names_that_exist():
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    imported = [
        alias.name for node in ast.walk(ast.parse(example)) if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert imported
    assert all(hasattr(harness, name) for name in imported)


def test_every_link_leads_to_a_file():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_output_shown_fits_a_terminal():
    for block in re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL):
        assert max(map(len, block.splitlines())) <= 80
