"""How far an explanation comes in its time says something of the machine, not of the rule."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.audit.accuracy._EXPLAIN_S", 120.0)
