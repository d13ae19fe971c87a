"""docs/sanitizing.md names every kind and every field."""

from __future__ import annotations

from pathlib import Path

from harness.sanitizing.findings import KINDS, Finding, Place
from harness.sanitizing.smallest import ENOUGH
from harness.sanitizing.tool import PADDING_BYTES, PRINTED_MOST, TOOLS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sanitizing.md").read_text(encoding="utf-8")


def test_the_page_explains_every_kind_in_the_code_s_words():
    for kind, words in KINDS.items():
        row = next(line for line in PAGE.splitlines() if f"| `{kind}` |" in line)
        assert words in row.replace("`", "")
    assert all(f"| `{tool}` |" in PAGE for tool in TOOLS)


def test_the_page_names_every_field_and_figure():
    fields = {*Finding.model_fields, *Place.model_fields}
    assert not {name for name in fields if f"`{name}`" not in PAGE}
    assert f"at least {ENOUGH} elements" in PAGE
    assert f"with {PADDING_BYTES} bytes" in PAGE
    assert f"than {PRINTED_MOST} reports" in PAGE
