"""docs/trust.md says what the corpus says."""

from __future__ import annotations

from corpus_cases import CORPUS

from scripts.trust_table import BEGIN, END, PAGE, with_table


def test_the_table_is_the_corpus() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert BEGIN in page
    assert END in page
    assert page == with_table(page, CORPUS), "run: python -m scripts.trust_table --write"


def test_a_class_that_is_added_shows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    first = next(iter(CORPUS.classes))
    assert page.count(f"| {first} ") == 1
    for name in CORPUS.classes:
        assert f"\n| {name} " in page
