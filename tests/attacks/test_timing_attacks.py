"""Submissions that try to look faster than they are: none may get a better figure than the truth."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness import grade

FOLDER = Path(__file__).parent / "timing"
PROBLEM = Path(__file__).parent.parent.parent / "benchmarks" / "problems" / "scale"
ATTACKS = tomllib.loads((FOLDER / "expected.toml").read_text())["attack"]


def test_every_file_has_its_line() -> None:
    assert {each["file"] for each in ATTACKS} == {path.name for path in FOLDER.glob("*.py")}


@pytest.mark.gpu
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["file"])
def test_it_ends_as_it_must(attack: dict[str, Any]) -> None:
    report = grade(PROBLEM, FOLDER / attack["file"], workload="us65", device="cuda")
    assert report.verdict in attack["verdict"], report.reason.message
    assert attack.get("reason") in (None, report.reason.code)
    if report.accepted:
        assert report.timing is not None
        assert report.timing.candidate.median_us >= attack["at_least_us"]
