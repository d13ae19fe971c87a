"""Nine problems, and as many different right submissions to each as are asked for, every one a build of its own.

    write_work(folder, device="cuda", per_problem=8, salt=...)  ->  folder/problems, folder/submissions

Six are elementwise, three go over rows. What makes two submissions to a problem different is a constant that the kernel
reads: another salt is another library, so nothing that was built before is of use.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROWS, COLUMNS = 4096, 4096
CPU_ROWS, CPU_COLUMNS = 64, 1024


@dataclass(frozen=True)
class Kind:
    """One problem."""

    name: str
    reference: str
    """Python, of x: [rows, columns], fp32."""
    body: str
    """C++ and CUDA: of one element v; of a row, what is written for element v given the reduced `sum` and `top`."""
    term: str = ""
    """What is summed over a row; empty: elementwise."""


KINDS = (
    Kind("affine", "1.5 * x + 0.25", "1.5f * v + 0.25f"),
    Kind("silu", "x * torch.sigmoid(x)", "v / (1.0f + expf(-v))"),
    Kind("relu_square", "torch.relu(x) ** 2", "fmaxf(v, 0.0f) * fmaxf(v, 0.0f)"),
    Kind("hardswish", "torch.nn.functional.hardswish(x)", "v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f"),
    Kind("softsign", "torch.nn.functional.softsign(x)", "v / (1.0f + fabsf(v))"),
    Kind("log1p_abs", "torch.log1p(x.abs())", "log1pf(fabsf(v))"),
    Kind("row_centre", "x - x.mean(-1, keepdim=True)", "v - sum / columns", "v"),
    Kind(
        "rms_norm",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
        "v / sqrtf(sum / columns + 1e-6f)",
        "v * v",
    ),
    Kind("row_softmax", "torch.softmax(x, -1)", "expf(v - top) / sum", "expf(v - top)"),
)

_TOML = f"""summary = "{{reference}}"

[workloads.large]
args = {{{{ rows = {ROWS}, columns = {COLUMNS} }}}}
device = "cuda"

[workloads.small]
args = {{{{ rows = {CPU_ROWS}, columns = {CPU_COLUMNS} }}}}
device = "cpu"

[default_workload]
cuda = "large"
cpu = "small"

[floor]
bytes = "8 * rows * columns"
"""

_REFERENCE = '''"""{name}"""

import torch


class Model(torch.nn.Module):
    """One function of one tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [rows, columns], fp32."""
        return {reference}


def get_inputs(rows={rows}, columns={columns}):
    """Normal."""
    return [torch.randn(rows, columns)]


def get_init_inputs():
    """Nothing."""
    return []
'''

_SUBMISSION = '''# problem: {name}
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    "{name}_{number}",
    cpp_sources="torch::Tensor apply(torch::Tensor x);",
    cuda_sources="""{cuda}""",
    functions=["apply"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.apply(x)
'''

_CPP_SUBMISSION = '''# problem: {name}
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline("{name}_{number}", cpp_sources="""{cpp}""", functions=["apply"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.apply(x)
'''

_ELEMENTWISE_CUDA = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr unsigned kSalt = @SALT@u;

__global__ void kernel(const float* x, float* y, long count, unsigned salt) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= count || salt != kSalt) return;
    float v = x[i];
    y[i] = @BODY@;
}

torch::Tensor apply(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long count = x.numel();
    int threads = @THREADS@;
    kernel<<<(count + threads - 1) / threads, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), count, kSalt);
    return y;
}
"""

_ROW_CUDA = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr unsigned kSalt = @SALT@u;
constexpr int kThreads = @THREADS@;

template <bool kMax>
__device__ float reduce(float mine) {
    __shared__ float part[kThreads];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int step = kThreads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            float a = part[threadIdx.x], b = part[threadIdx.x + step];
            part[threadIdx.x] = kMax ? fmaxf(a, b) : a + b;
        }
        __syncthreads();
    }
    float all = part[0];
    __syncthreads();
    return all;
}

__global__ void kernel(const float* x, float* y, long columns, unsigned salt) {
    if (salt != kSalt) return;
    const float* row = x + blockIdx.x * columns;
    float* out = y + blockIdx.x * columns;
    float top = -INFINITY, sum = 0.0f;
    for (long i = threadIdx.x; i < columns; i += kThreads) top = fmaxf(top, row[i]);
    top = reduce<true>(top);
    for (long i = threadIdx.x; i < columns; i += kThreads) {
        float v = row[i];
        sum += @TERM@;
    }
    sum = reduce<false>(sum);
    for (long i = threadIdx.x; i < columns; i += kThreads) {
        float v = row[i];
        out[i] = @BODY@;
    }
}

torch::Tensor apply(torch::Tensor x) {
    auto y = torch::empty_like(x);
    kernel<<<x.size(0), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), kSalt);
    return y;
}
"""

_CPP = """
#include <torch/extension.h>
#include <cmath>

constexpr unsigned kSalt = @SALT@u;

torch::Tensor apply(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long rows = x.size(0), columns = x.size(1);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (long r = 0; r < rows; ++r, in += columns, out += columns) {
        float top = -INFINITY, sum = 0.0f;
        for (long i = 0; i < columns; ++i) top = fmaxf(top, in[i]);
        for (long i = 0; i < columns; ++i) {
            float v = in[i];
            sum += @TERM@;
        }
        for (long i = 0; i < columns && kSalt; ++i) {
            float v = in[i];
            out[i] = @BODY@;
        }
    }
    return y;
}
"""


def write_work(folder: Path, *, device: Literal["cuda", "cpu"], per_problem: int, salt: int) -> int:
    """Write `folder/problems` and `folder/submissions`; returns how many submissions there are."""
    count = 0
    for kind in KINDS:
        place = folder / "problems" / kind.name
        place.mkdir(parents=True)
        (place / "problem.toml").write_text(_TOML.format(reference=kind.reference))
        text = _REFERENCE.format(name=kind.name, reference=kind.reference, rows=ROWS, columns=COLUMNS)
        (place / "reference.py").write_text(text)
        for number in range(per_problem):
            path = folder / "submissions" / f"{kind.name}_{number}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(_submission(kind, number, device, salt + number))
            count += 1
    return count


def write_plain(folder: Path, count: int) -> None:
    """Submissions to the elementwise problems that build nothing."""
    write_work(folder, device="cpu", per_problem=0, salt=0)
    (folder / "submissions").mkdir()
    for number in range(count):
        kind = KINDS[number % 6]
        lines = [f"# problem: {kind.name}", f"# {number}", "import torch", "", "", "class ModelNew(torch.nn.Module):"]
        lines += ["    def forward(self, x):", f"        return {kind.reference}", ""]
        (folder / "submissions" / f"s{number:04d}.py").write_text("\n".join(lines))


def _submission(kind: Kind, number: int, device: str, salt: int) -> str:
    def filled(template: str) -> str:
        values = {
            "@SALT@": str(salt % (1 << 32) or 1),
            "@BODY@": kind.body,
            "@TERM@": kind.term or "0.0f",
            "@THREADS@": str((128, 256, 512)[number % 3]),
        }
        for name, value in values.items():
            template = template.replace(name, value)
        return template

    if device == "cpu":
        return _CPP_SUBMISSION.format(name=kind.name, number=number, cpp=filled(_CPP))
    cuda = filled(_ROW_CUDA if kind.term else _ELEMENTWISE_CUDA)
    return _SUBMISSION.format(name=kind.name, number=number, cuda=cuda)
