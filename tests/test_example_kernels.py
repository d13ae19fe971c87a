"""The CUDA examples' kernels, run on the CPU: their index arithmetic at odd, tiny and long sizes, without a GPU.

Each kernel's text is taken from the submission, its host wrapper is replaced by a few lines that launch it in the same
grid, and the result is compared with the problem's reference.
"""

from __future__ import annotations

import ast
import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from harness.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent / "kernels"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def kernel_text(submission: str) -> str:
    """The device code of a submission's cuda_source: what lies between the includes and the host wrapper."""
    tree = ast.parse((ROOT / "submissions" / submission).read_text())
    source = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "cuda_source"
    )
    device = source[: source.index("torch::Tensor ")]
    lines = [line for line in device.splitlines() if not line.startswith("#include")]
    # Dynamic shared memory is an array that the glue defines.
    return "\n".join(lines).replace("extern __shared__ float shared[]", "extern float shared[]")


def compile_glue(submission: str, glue: str, folder: Path) -> ctypes.CDLL:
    source = folder / "kernel.cpp"
    source.write_text(f'#include "cuda_on_cpu.h"\n{kernel_text(submission)}\n{glue}\n')
    library = folder / "kernel.so"
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", f"-I{HERE}", str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(library))


def pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    assert tensor.is_contiguous()
    assert tensor.dtype == torch.float32
    return ctypes.c_void_p(tensor.data_ptr())


def ints(*values: int) -> tuple[ctypes.c_int, ...]:
    return tuple(ctypes.c_int(value) for value in values)


def assert_close(output: torch.Tensor, expected: torch.Tensor) -> None:
    """The problems' own tolerance."""
    rms = expected.double().pow(2).mean().sqrt()
    error = (output.double() - expected.double()).abs()
    assert bool((error <= 1e-4 * rms + 1e-4 * expected.double().abs()).all())


RECURRENCE_GLUE = {
    "recurrence_v0.py": """
float shared[1 << 16];
extern "C" void run(const float* a, const float* b, float* h, float*, int B, int L, int D) {
    launch(B * D, 1024, [=] { scan_channel(a, b, h, L, D); });
}
""",
    "recurrence_v1.py": """
extern "C" void run(const float* a, const float* b, float* h, float*, int B, int L, int D) {
    launch(B * D, THREADS, [=] { scan_channel(a, b, h, L, D); });
}
""",
    "recurrence_v2.py": """
extern "C" void run(const float* a, const float* b, float* h, float* scratch, int B, int L, int D) {
    const long long total = (long long)B * L * D;
    float* a_buffers[2] = {scratch, scratch + total};
    float* b_buffers[2] = {scratch + 2 * total, scratch + 3 * total};
    int into = 0;
    for (int offset = 1; offset < L; offset *= 2) {
        float* a_to = a_buffers[into];
        float* b_to = b_buffers[into];
        launch((total + 255) / 256, 256, [=] { double_segments(a, b, a_to, b_to, total, L, D, offset); });
        a = a_to;
        b = b_to;
        into = 1 - into;
    }
    for (long long i = 0; i < total; ++i) h[i] = b[i];
}
""",
}


@pytest.mark.parametrize("submission", list(RECURRENCE_GLUE))
def test_recurrence_kernels_agree_with_the_loop(submission: str, tmp_path: Path) -> None:
    library = compile_glue(submission, RECURRENCE_GLUE[submission], tmp_path)
    module = Problem.load(ROOT / "problems/linear_recurrence")
    workload = module.workload(None, "cpu")
    model = module.module(workload).Model()
    torch.manual_seed(1)
    sizes = [(1, 1, 1), (2, 7, 3), (1, 1001, 2)]
    if submission == "recurrence_v1.py":
        sizes.append((1, 2 * 2048 + 5, 1))  # two whole chunks and a short one
    for B, L, D in sizes:
        a, b = torch.rand(B, L, D), torch.randn(B, L, D)
        h, scratch = torch.full_like(b, torch.nan), torch.full((4, *b.shape), torch.nan)
        library.run(pointer(a), pointer(b), pointer(h), pointer(scratch), *ints(B, L, D))
        assert_close(h, model(a, b))


def test_selective_scan_kernel_agrees_with_the_loop(tmp_path: Path) -> None:
    glue = """
extern "C" void run(const float* x, const float* delta, const float* B, const float* C, const float* A_log,
                    const float* skip, float* y, int batch, int L, int D) {
    const dim3 grid((D + CHANNELS - 1) / CHANNELS, batch);
    launch(grid, CHANNELS * STATES, [=] { scan(x, delta, B, C, A_log, skip, y, L, D); });
}
"""
    library = compile_glue("s6_v2.py", glue, tmp_path)
    problem = Problem.load(ROOT / "problems/selective_scan")
    reference = problem.module(problem.workload(None, "cpu"))
    torch.manual_seed(2)
    for batch, length, d_model in [(1, 1, 1), (2, 30, 16), (2, 13, 21)]:
        model = reference.Model(d_model, 16)
        torch.nn.init.normal_(model.D)
        x = torch.randn(batch, length, d_model)
        with torch.no_grad():
            expected = model(x)
            delta = torch.nn.functional.softplus(model.proj_delta(x))
            B, C = model.proj_B(x), model.proj_C(x)
        y = torch.full_like(x, torch.nan)
        arguments = (x, delta, B, C, model.A_log.detach(), model.D.detach(), y)
        library.run(*(pointer(tensor) for tensor in arguments), *ints(batch, length, d_model))
        assert_close(y, expected)


def test_batch_norm_softmax_kernels_agree_with_torch(tmp_path: Path) -> None:
    glue = """
extern "C" void run(const float* z, const float* weight, const float* bias, const float* scale, float* running_mean,
                    float* running_var, float* sums, float* columns, float* out, int M, int N) {
    float* mean = columns;
    float* multiplier = mean + N;
    float* offset = multiplier + N;
    const dim3 grid((N + COLUMNS - 1) / COLUMNS, (M + ROWS - 1) / ROWS);
    launch(grid, dim3(COLUMNS, ROW_LANES), [=] { column_sums(z, sums, M, N); });
    launch((N + THREADS - 1) / THREADS, THREADS, [=] {
        finalise(z, sums, weight, bias, scale, running_mean, running_var, mean, multiplier, offset, M, N, 1e-5f, 0.1f);
    });
    launch(M, THREADS, [=] { normalise_softmax(z, mean, multiplier, offset, out, N); });
}
"""
    library = compile_glue("gemm_bn_softmax_v1.py", glue, tmp_path)
    problem = Problem.load(ROOT / "problems/gemm_bn_scale_softmax")
    reference = problem.module(problem.workload(None, "cpu"))
    torch.manual_seed(3)
    for rows, columns in [(2, 3), (37, 131), (150, 40), (9, 700)]:
        model = reference.Model(5, columns, 1e-5, 0.1, (1,))
        x = torch.rand(rows, 5)
        with torch.no_grad():
            z = model.gemm(x)
            state = [model.bn.running_mean.clone(), model.bn.running_var.clone()]
            expected = model(x)
        out = torch.full_like(z, torch.nan)
        sums, scratch = torch.zeros(2, columns), torch.full((3, columns), torch.nan)
        weights = [model.bn.weight.detach(), model.bn.bias.detach(), model.scale.detach()]
        arguments = (z, *weights, *state, sums, scratch, out)
        library.run(*(pointer(tensor) for tensor in arguments), *ints(rows, columns))
        assert_close(out, expected)
        assert_close(state[0], model.bn.running_mean)
        assert_close(state[1], model.bn.running_var)
