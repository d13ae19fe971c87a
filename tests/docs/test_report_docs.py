"""docs/report.md: its example is a report, and it leaves out no field and no reason code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from harness.report import Report, Verdict

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "report.md").read_text()
CODE = re.compile(
    r"(judge|grade|submission|output|input|run|limit|build|time|device|precision|sandbox|weights)\.[a-z0-9_]+"
)
NOT_CODES = {"build.ninja", "submission.py"}


def test_the_example_is_a_report():
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    report = Report.model_validate_json(example)
    assert report.model_dump(exclude_unset=True).keys() == Report.model_fields.keys()


def test_every_field_and_verdict_is_explained():
    for name in (*Report.model_fields, *Verdict):
        assert f"`{name}`" in TEXT, f"docs/report.md does not explain {name}"


def test_every_reason_code_is_explained():
    in_use = {
        node.value
        for path in (ROOT / "harness").rglob("*.py")
        if "cli" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }
    assert "output.values" in in_use
    missing = sorted(code for code in in_use - NOT_CODES if f"`{code}`" not in TEXT)
    assert not missing, f"docs/report.md does not explain {', '.join(missing)}"
