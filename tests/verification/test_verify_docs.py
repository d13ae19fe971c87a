"""docs/writing-a-problem.md explains every code of a finding, and every code is used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from harness.verification.findings import CODES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "writing-a-problem.md").read_text()
AREAS = sorted({code.partition(".")[0] for code in CODES})


def test_every_code_is_explained_and_nothing_else_is():
    rows = re.findall(rf"`((?:{'|'.join(AREAS)})\.[a-z_]+)`", TEXT)
    assert set(rows) - {"reference.py"} == CODES.keys()


def test_every_code_is_used():
    used = {
        node.value
        for path in (ROOT / "harness" / "verification").glob("*.py")
        if path.name != "findings.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    composed = {code for code in CODES if code.startswith("answer.") and code.partition(".")[2] in used}
    composed |= {f"moves.{kind}" for kind in ("input", "parameter") if kind in used}
    assert CODES.keys() - used - composed == set()
