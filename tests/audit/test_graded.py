"""Whole gradings that the audit decides, or says something about."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Report, Submission, Verdict, grade
from harness.problem import Problem

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(64, 4096), torch.rand(4096, 64)]

def get_init_inputs():
    return []
"""
TF32 = """
import torch
from torch import nn

def nearest(x):
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & -0x2000).view(torch.float32)

class ModelNew(nn.Module):
    def forward(self, a, b):
        return nearest(a) @ nearest(b)
"""
HONEST = TF32.replace("nearest(a) @ nearest(b)", "a.flip(1) @ b.flip(0)")
POSITIVE_ONLY = TF32.replace("nearest(a) @ nearest(b)", "(a @ b if bool((a >= 0).all()) else 1 / 0)")
ONLY_MODERATE = TF32.replace("nearest(a) @ nearest(b)", "a.clamp(max=1) @ b.clamp(max=1)")


def graded(source: str, folder: Path, toml: str = "", **options: object) -> Report:
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "problem.toml").write_text(f"{toml}\n[workloads.default]\ntrials = 1\n")
    options = {"mode": "check", "device": "cpu"} | options
    return grade(Problem.load(folder), Submission.from_source(source, "answer.py"), **options)  # type: ignore[arg-type]


def test_tf32_within_the_tolerance_is_rejected(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, mode="run", budget_s=0.2)
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    assert "tf32" in report.reason.message
    assert report.correctness is not None
    (leaf,) = report.correctness.leaves
    assert leaf.ok
    assert leaf.precision_ratio is not None
    assert leaf.precision_ratio > 25
    assert [stage.name for stage in report.stages] == ["load", "build", "check", "time", "audit", "judge"]


def test_it_is_a_warning_where_the_problem_only_flags(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, 'precision_policy = "flag"')
    assert report.verdict is Verdict.ACCEPTED
    assert [warning.code for warning in report.warnings] == ["precision.below_spec"]


def test_fp32_in_another_order_is_accepted_without_a_word(tmp_path: Path) -> None:
    report = graded(HONEST, tmp_path)
    assert (report.verdict, report.warnings) == (Verdict.ACCEPTED, [])
    assert report.audit is not None
    assert report.audit.precision is not None
    assert not report.audit.precision.below


@pytest.mark.parametrize(
    ("source", "code"), [(POSITIVE_ONLY, "precision.probe_failed"), (ONLY_MODERATE, "precision.probe_values")]
)
def test_failing_on_inputs_that_nobody_promised_is_a_warning(
    source: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.audit.stage._LEAST_S", 60.0)
    report = graded(source, tmp_path)
    assert report.verdict is Verdict.ACCEPTED, report.reason
    assert {warning.code for warning in report.warnings} == {code}


def test_any_asks_for_nothing(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, 'precision = "any"')
    assert report.accepted
    assert report.audit is not None
    assert report.audit.precision is not None
    assert report.audit.precision.left_out == ["The problem asks for any: only the tolerance counts."]
