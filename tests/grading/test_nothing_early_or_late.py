"""Work done before its call is timed, or after, is found on any machine, however busy: by bytes and not by times."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Verdict, grade

CORPUS = Path(__file__).parents[1] / "attacks" / "corpus"


@pytest.mark.parametrize(
    ("file", "problem", "codes"),
    [
        ("answers_early.py", "scale", {"time.outputs_changed"}),
        ("work_at_put.py", "wave", {"output.timed_values"}),
    ],
)
def test_work_at_another_time_is_rejected(file: str, problem: str, codes: set[str]) -> None:
    report = grade(CORPUS / "problems" / problem, CORPUS / "timing" / file, device="cpu", budget_s=0.3)
    assert report.verdict is not Verdict.ACCEPTED
    assert report.reason.code in codes, report.reason.message
