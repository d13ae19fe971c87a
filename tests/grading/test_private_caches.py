"""What run-time compilers keep is a submission's own, and goes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Submission, grade
from harness.sandbox import SANDBOXES

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.rand(8)]

def get_init_inputs():
    return []
"""

# Leaves a mark in each place where Triton, torch.compile and the CUDA driver keep what they compiled, and fails where
# it finds one.
MARKING = """
import os
from torch import nn
from torch._inductor.runtime.cache_dir_utils import cache_dir

PLACES = [os.path.expanduser("~/.triton/cache"), os.path.expanduser("~/.nv/ComputeCache"), cache_dir()]

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for place in PLACES:
            os.makedirs(place, exist_ok=True)
            mark = os.path.join(place, "mark")
            assert not os.path.exists(mark), mark
            open(mark, "w").close()
            print("MARK", mark)

    def forward(self, x):
        return x + 1
"""


@pytest.mark.parametrize("sandbox", sorted(SANDBOXES))
def test_caches_of_compilers_are_private(sandbox: str, tmp_path: Path) -> None:
    if why := SANDBOXES[sandbox].unavailable():
        pytest.skip(why)
    (tmp_path / "problem.py").write_text(PROBLEM)
    submission = Submission.from_source(MARKING, "marking.py")
    for _ in range(2):
        report = grade(tmp_path / "problem.py", submission, device="cpu", mode="check", sandbox=sandbox)
        assert report.accepted, report.reason
        marks = [line.split()[1] for line in report.log.splitlines() if line.startswith("MARK")]
        assert len(marks) == 3
        assert not any(Path(mark).exists() for mark in marks)
