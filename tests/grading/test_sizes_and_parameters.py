"""Sizes besides the graded ones, and how a submission gets the reference's parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Problem, Submission, Verdict, grade

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.second = nn.Linear(n, n)
    def forward(self, x):
        return self.second(self.first(x))

def get_inputs(n=16):
    return [torch.rand(4, n)]

def get_init_inputs(n=16):
    return [n]
"""
TOML = """
[workloads.default]
trials = 2
[workloads.odd]
args = { n = 7 }
timed = false
trials = 1
"""
SAME = REFERENCE.partition("def get_inputs")[0].replace("class Model", "class ModelNew")
ONLY_MULTIPLES = SAME.replace(
    "return self.second", "x = x if x.shape[1] % 4 == 0 else x * 1.01\n        return self.second"
)
OTHER_ORDER = SAME.replace("self.first = nn.Linear(n, n)", "torch.rand(3)\n        self.first = nn.Linear(n, n)")
OTHER_NAMES = SAME.replace("self.first", "self.one").replace("self.second", "self.two")
OTHER_NAMES_AND_ORDER = OTHER_ORDER.replace("self.first", "self.one").replace("self.second", "self.two")


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "problem.toml").write_text(TOML)
    return Problem.load(tmp_path)


def test_a_submission_has_to_be_right_at_the_further_sizes_too(problem: Problem) -> None:
    submission = Submission.from_source(ONLY_MULTIPLES, "answer.py")
    report = grade(problem, submission, device="cpu", mode="check")
    assert (report.verdict, report.reason.code) == (Verdict.WRONG_ANSWER, "output.values")
    assert report.reason.evidence["workload"] == "odd"
    assert "'odd'" in report.reason.message


def test_a_workload_for_checking_only_is_not_timed(problem: Problem) -> None:
    report = grade(problem, Submission.from_source(SAME, "answer.py"), device="cpu", workload="odd")
    assert (report.verdict, report.reason.code) == (Verdict.ACCEPTED, "grade.correct")
    assert report.timing is None
    assert "time.not_timed" in [warning.code for warning in report.warnings]


@pytest.mark.parametrize(
    ("source", "weights", "verdict"),
    [
        (SAME, "transferred", Verdict.ACCEPTED),
        (OTHER_ORDER, "transferred", Verdict.ACCEPTED),
        (OTHER_NAMES, "seeded", Verdict.ACCEPTED),
        (OTHER_NAMES_AND_ORDER, "seeded", Verdict.WRONG_ANSWER),
    ],
    ids=["same", "other draws", "other names", "other names and draws"],
)
def test_parameters_are_copied_by_name_or_drawn_alike(
    source: str, weights: str, verdict: Verdict, problem: Problem
) -> None:
    report = grade(problem, Submission.from_source(source, "answer.py"), device="cpu", mode="check")
    assert report.verdict is verdict
    assert report.correctness is not None
    assert report.correctness.weights == weights
    assert ("weights.seeded" in [warning.code for warning in report.warnings]) is (weights == "seeded")
    assert report.correctness.also_checked == (["odd"] if verdict is Verdict.ACCEPTED else [])
