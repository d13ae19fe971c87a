"""A small problem that is right, and the texts that make broken ones of it."""

from __future__ import annotations

from pathlib import Path

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, y):
        return x * self.weight + y


def get_inputs(rows=24, features=32):
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs(features=32):
    return [features]
"""
TOML = """
[limits]
import_s = 30
construct_s = 30
call_s = 30

[workloads.default]
trials = 2

[floor]
bytes = "4 * (3 * rows * features + features)"
"""
RETURNED = "x * self.weight + y"
SUBMISSION = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x, y):
        return torch.addcmul(y, x, self.weight)
"""
ENTRY = """
[[submission]]
file = "fused.py"
problem = "scaled"
device = "cpu"
verdict = "{verdict}"
reason = "{reason}"
"""


def write(folder: Path, returned: str = RETURNED, toml: str = TOML, **replaced: str) -> Path:
    """The problem `scaled` below `folder`/problems, its forward returning something else, other texts replaced."""
    problem = folder / "problems" / "scaled"
    problem.mkdir(parents=True)
    reference = REFERENCE.replace(RETURNED, returned)
    for old, new in replaced.items():
        text = PLACES[old]
        assert text in reference, text
        reference = reference.replace(text, new)
    (problem / "reference.py").write_text(reference)
    (problem / "problem.toml").write_text(toml)
    (problem / "README.md").write_text("Scale x and add y.\n")
    return problem


PLACES = {
    "weight": "torch.rand(features) + 0.5",
    "inputs": "[torch.randn(rows, features), torch.randn(rows, features)]",
}
"""What `write` replaces by name."""


def with_example(problem: Path, verdict: str, reason: str) -> None:
    """Give it one right submission, and say how it must end."""
    folder = problem.parent.parent / "submissions"
    folder.mkdir()
    (folder / "fused.py").write_text(SUBMISSION)
    (folder / "expected.toml").write_text(ENTRY.format(verdict=verdict, reason=reason))
