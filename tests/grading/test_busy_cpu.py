"""A time on a CPU that other work shared: told, and with no interval that could be believed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tiny

from harness import Report, Submission, grade, reward
from harness.machine.others import Others


def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float) -> Report:
    monkeypatch.setattr(Others, "share", lambda _: share)
    problem = tmp_path / "problem.py"
    problem.write_text(tiny.REFERENCE)
    submission = Submission.from_source(tiny.REFERENCE.replace("class Model(", "class ModelNew("), "a.py")
    return grade(problem, submission, device="cpu", budget_s=0.5)


def test_beside_other_work_nothing_is_said_to_be_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = graded(tmp_path, monkeypatch, 0.9)
    timing = report.timing
    assert timing is not None
    assert timing.speedup_ci95 == timing.candidate.ci95_us == timing.reference.ci95_us == (0.0, math.inf)
    assert timing.comparison == "undecided"
    assert timing.shortfall.startswith("Other work took 90 % of the processors")
    assert [warning.evidence for warning in report.warnings if warning.code == "device.busy"] == [{"share": 0.9}]
    assert reward(report).speedup is None
    if report.accepted:  # a machine that really is busy confirms no time
        assert "no interval could be given" in report.reason.message


def test_beside_a_little_of_it_a_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = graded(tmp_path, monkeypatch, 0.1)
    assert report.timing is not None
    assert "device.busy" not in [warning.code for warning in report.warnings]
    assert "Other work" not in report.timing.shortfall
