"""The corpus, loaded once, and its entries as pytest's parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.selftest.corpus import load_corpus
from harness.selftest.running import in_order

CORPUS = load_corpus(Path(__file__).parent / "corpus")
CASES = [
    pytest.param(
        case,
        id=f"{case.name}-{case.kind}",
        marks=[pytest.mark.gpu] if case.kind == "cuda" else [],
    )
    for kind in ("cpu", "cuda")
    for case in in_order(CORPUS.cases(kind))
    if case.entry.tested
]
