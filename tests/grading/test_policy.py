"""What a problem allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Problem, Submission, grade

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.rand(64)]

def get_init_inputs():
    return []
"""
ONE_BUFFER = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.buffer = torch.empty(64)

    def forward(self, x):
        torch.add(x, 1, out=self.buffer)
        return self.buffer
"""
IN_PLACE = """
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return x.add_(1).clone()
"""


@pytest.mark.parametrize(
    ("source", "key", "mode", "code"),
    [
        (ONE_BUFFER, "alias_outputs", "run", "output.overwritten"),
        (IN_PLACE, "in_place", "check", "input.mutated"),
    ],
)
def test_what_is_refused_is_accepted_where_the_problem_allows_it(
    source: str, key: str, mode: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    submission = Submission.from_source(source, "answer.py")
    for allowed in (False, True):
        (tmp_path / "problem.toml").write_text(f"[policy]\n{key} = {str(allowed).lower()}\n")
        problem = Problem.load(tmp_path)
        report = grade(problem, submission, device="cpu", mode=mode)  # type: ignore[arg-type]
        assert report.reason.code == (code if not allowed else "grade.accepted" if mode == "run" else "grade.correct")
