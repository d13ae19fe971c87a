"""The audit where there is a GPU: torch's own tf32, traces, races."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Report, Submission, Verdict, grade
from harness.load.problem import Problem

pytestmark = pytest.mark.gpu

PRODUCT = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(1024, 4096), torch.rand(4096, 512)]

def get_init_inputs():
    return []
"""
TORCH = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, a, b):
        return {}
"""
SPLIT = """
import torch
from torch import nn

def parts(x):
    high = ((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    return high, x - high

class ModelNew(nn.Module):
    def forward(self, a, b):
        torch.backends.cuda.matmul.allow_tf32 = True
        (ah, al), (bh, bl) = parts(a), parts(b)
        y = 0
        for k in range(0, a.shape[1], STEP):
            part = slice(k, k + STEP)
            y = y + (al[:, part] @ bh[part] + ah[:, part] @ bl[part] + ah[:, part] @ bh[part])
        return y
"""
DOUBLE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(1 << 20)]

def get_init_inputs():
    return []
"""
EXTENSION = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="doubled",
    cpp_sources="torch::Tensor doubled(torch::Tensor x);",
    cuda_sources="""
#include <torch/extension.h>
namespace own {
template <typename T>
__global__ void twice(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
}
torch::Tensor doubled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    own::twice<float><<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["doubled"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return %s
'''


def graded(source: str, reference: str, folder: Path, toml: str = "") -> Report:
    (folder / "reference.py").write_text(reference)
    (folder / "problem.toml").write_text(f"{toml}\n[workloads.default]\ntrials = 2\n")
    return grade(Problem.load(folder), Submission.from_source(source, "answer.py"), device="cuda", mode="check")


@pytest.mark.parametrize(
    ("expression", "resembles"),
    [
        ("(setattr(torch.backends.cuda.matmul, 'allow_tf32', True), a @ b)[1]", "tf32"),
        ("(a.half() @ b.half()).float()", ""),
        ("a.half().float() @ b.half().float()", "fp16"),
        ("a.bfloat16().float() @ b.bfloat16().float()", "bf16"),
    ],
)
def test_coarse_products_are_rejected(expression: str, resembles: str, tmp_path: Path) -> None:
    # Of bfloat16 a few elements in a million are more than 1e-4 off.
    report = graded(TORCH.format(expression), PRODUCT, tmp_path, "[tolerance]\nrtol = 3e-4\n")
    if report.verdict is Verdict.WRONG_ANSWER:  # a result in half precision is outside the tolerance already
        assert not resembles
        return
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    assert resembles in str(report.reason.evidence["resembles"])


@pytest.mark.parametrize(
    "source", [SPLIT.replace("STEP", "128"), TORCH.format("a @ b"), TORCH.format("(b.t() @ a.t()).t().contiguous()")]
)
def test_fp32_products_are_accepted(source: str, tmp_path: Path) -> None:
    report = graded(source, PRODUCT, tmp_path)
    assert report.accepted, report.reason
    assert report.audit is not None
    assert report.audit.precision is not None
    assert max(leaf.ratio for leaf in report.audit.precision.leaves) < 8


def test_sums_that_tensor_cores_cut_off_are_no_fp32_and_not_called_tf32(tmp_path: Path) -> None:
    """Of 4096 positive terms they lose as much as tf32 does, however the factors were split."""
    report = graded(SPLIT.replace("STEP", "4096"), PRODUCT, tmp_path)
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    assert not report.reason.evidence["resembles"]
    assert "cut off what they add" in report.reason.message


def test_own_kernels_are_told_from_libraries(tmp_path: Path) -> None:
    report = graded(EXTENSION % "extension.doubled(x)", DOUBLE, tmp_path, "[policy]\nown_kernel_share = 0.9\n")
    assert report.accepted, report.reason
    assert report.audit is not None
    assert report.audit.own_kernel_share == 1.0, report.audit
    assert [(kernel.origin, kernel.calls) for kernel in report.audit.kernels] == [("extension", 1.0)]


def test_a_decoy_is_named_and_pure_torch_is_refused_where_that_is_asked(tmp_path: Path) -> None:
    decoy = graded(EXTENSION % "x * 2", DOUBLE, tmp_path)
    assert decoy.accepted
    assert "audit.kernels_not_launched" in {warning.code for warning in decoy.warnings}
    pure = TORCH.format("a * 2").replace("a, b", "a")
    assert "audit.only_library_kernels" in {warning.code for warning in graded(pure, DOUBLE, tmp_path).warnings}
    refused = graded(pure, DOUBLE, tmp_path, "[policy]\nown_kernel_share = 0.5\n")
    assert (refused.verdict, refused.reason.code) == (Verdict.REJECTED, "policy.own_kernel_share")
