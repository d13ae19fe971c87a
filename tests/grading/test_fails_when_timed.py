"""What goes wrong in a timed loop is told as what it is."""

from __future__ import annotations

from pathlib import Path

import tiny

from harness import Submission, Verdict, grade

RAISES_IN_LOOPS = """
import sys
import torch
from torch import nn

def among_others():
    frame = sys._getframe()
    while frame is not None:
        order = frame.f_locals.get("order")
        if isinstance(order, dict) and order.get("type") == "time":
            return order["turns"] > 1
        frame = frame.f_back
    return False

class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        if among_others():
            raise ValueError("not now")
        return torch.relu(x) * self.factor
"""


def test_an_exception_in_a_loop_is_the_submissions(tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(tiny.REFERENCE)
    report = grade(problem, Submission.from_source(RAISES_IN_LOOPS, "a.py"), device="cpu", budget_s=0.3)
    assert (report.verdict, report.reason.code) == (Verdict.RUNTIME_ERROR, "run.exception")
    assert "not now" in report.reason.message
