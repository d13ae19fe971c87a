"""Small problems in each format, and submissions to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TASK = """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../shared_utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}
lang: "py"
description: |
  Running sums of each row.
config:
  main: "eval.py"
tests:
  - {"rows": 3, "size": 17, "seed": 11}
benchmarks:
  - {"rows": 4, "size": 16, "seed": 21}
  - {"rows": 4, "size": 48, "seed": 22}
ranked_timeout: 180
ranking_by: "geom"
milestones: []
"""
UTILS = """
import torch

def near(reference, **tolerance):
    def check(data, output):
        expected = reference(data)
        if torch.allclose(output, expected, **tolerance):
            return True, ""
        return False, f"off by {(output - expected).abs().max().item():.3g}"
    return check
"""
TASK_PY = "import torch\n\ninput_t = tuple[torch.Tensor, torch.Tensor]\noutput_t = torch.Tensor\n"
REFERENCE = """
import torch
from task import input_t, output_t
from utils import near

def generate_input(rows: int, size: int, seed: int) -> input_t:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, size, generator=generator)
    return x, torch.empty_like(x)

def ref_kernel(data: input_t) -> output_t:
    x, out = data
    torch.cumsum(x, dim=1, out=out)
    return out

check_implementation = near(ref_kernel, rtol=1e-3, atol=1e-3)
"""
CUSTOM = """#!POPCORN leaderboard sums
import torch
from task import input_t, output_t

def custom_kernel(data: input_t) -> output_t:
    x, out = data
    out.copy_(x.cumsum(1))
    return out
"""


def gpumode(folder: Path, **changes: str) -> Path:
    """A GPU MODE task; `changes` are other texts for task_yml, reference, utils, task_py."""
    problem = folder / "sums"
    problem.mkdir(parents=True, exist_ok=True)
    (folder / "shared_utils.py").write_text(changes.get("utils", UTILS))
    (problem / "task.yml").write_text(changes.get("task_yml", TASK))
    (problem / "task.py").write_text(changes.get("task_py", TASK_PY))
    (problem / "reference.py").write_text(changes.get("reference", REFERENCE))
    return problem


NORM = """
import torch

def run(x, weight, eps):
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (x.float() * rstd * weight.float()).to(x.dtype), rstd.squeeze(-1)
"""
WRITES = """
import torch
from helper import scale

def run(x, weight, eps, y, rstd):
    s = scale(x, eps)
    rstd.copy_(s.squeeze(-1))
    y.copy_(x.float() * s * weight.float())
"""
HELPER = """
import torch

def scale(x, eps):
    return torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
"""
CPP = """
#include <torch/extension.h>
void norm(torch::Tensor x, torch::Tensor weight, double eps, torch::Tensor y, torch::Tensor rstd) {
  auto s = torch::rsqrt(x.to(torch::kFloat).pow(2).mean(-1, true) + eps);
  rstd.copy_(s.squeeze(-1));
  y.copy_(x.to(torch::kFloat) * s * weight.to(torch::kFloat));
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("norm", &norm); }
"""


def definition(**changes: Any) -> dict[str, Any]:
    """A root mean square norm of fp16 rows, with its factors as a second output."""
    return {
        "name": "rmsnorm_h16",
        "op_type": "rmsnorm",
        "tags": ["status:verified"],
        "axes": {
            "batch": {"type": "var"},
            "hidden": {"type": "const", "value": 16},
            "half": {"type": "expr", "expression": "hidden // 2"},
        },
        "inputs": {
            "x": {"shape": ["batch", "hidden"], "dtype": "float16"},
            "weight": {"shape": ["hidden"], "dtype": "float16"},
            "eps": {"shape": None, "dtype": "float32"},
        },
        "outputs": {
            "y": {"shape": ["batch", "hidden"], "dtype": "float16"},
            "rstd": {"shape": ["batch"], "dtype": "float32"},
        },
        "reference": NORM,
        **changes,
    }


def workload(uuid: str, batch: int, **changes: Any) -> dict[str, Any]:
    inputs = {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}}
    return {"uuid": uuid, "axes": {"batch": batch}, "inputs": inputs, **changes}


def sol(folder: Path, *loads: dict[str, Any], **changes: Any) -> Path:
    """A SOL-ExecBench folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "definition.json").write_text(json.dumps(definition(**changes)))
    lines = loads or (workload("a", 3), workload("b", 20))
    (folder / "workload.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return folder


def flashinfer(root: Path, *loads: dict[str, Any]) -> Path:
    """A flashinfer-bench data set of one definition."""
    file = root / "definitions" / "norm" / "rmsnorm_h16.json"
    lines = root / "workloads" / "norm" / "rmsnorm_h16.jsonl"
    for path in (file, lines):
        path.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(definition()))
    traces = [{"definition": "rmsnorm_h16", "workload": each, "solution": None, "evaluation": None} for each in loads]
    lines.write_text("".join(f"{json.dumps(each)}\n" for each in traces))
    return file


def solution(sources: dict[str, str], **spec: Any) -> str:
    """A solution in JSON."""
    return json.dumps(
        {
            "name": "mine",
            "definition": "rmsnorm_h16",
            "author": "somebody",
            "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run", **spec},
            "sources": [{"path": path, "content": content} for path, content in sources.items()],
        }
    )
