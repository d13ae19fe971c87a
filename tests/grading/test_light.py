"""A grading imports no more than it needs: each second of importing is a second of every `harness run`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.rand(64)]


def get_init_inputs():
    return []
"""
RIGHT = REFERENCE.replace("Model", "ModelNew")
SCRIPT = """
import sys
from harness import grade

report = grade(*sys.argv[1:], device="cpu", sandbox="none")
print(report.verdict, *(name for name in ("torch._dynamo", "torch._inductor", "matplotlib") if name in sys.modules))
"""


def test_no_compiler_of_torch_and_nothing_that_draws(
    problem_folder: Callable[..., Path], submission_file: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    files = problem_folder(REFERENCE), submission_file(RIGHT)
    command = [sys.executable, "-c", SCRIPT, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.stdout.split() == ["accepted"], done.stderr
