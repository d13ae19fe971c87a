"""The CUDA examples' kernels, run on the CPU: their index arithmetic at odd, tiny and long sizes, without a GPU.

Each kernel's text is taken from the submission, its host wrapper is replaced by a few lines that launch it in the same
grid, and the result is compared with the problem's reference.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.load.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent / "kernels"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


INSTRUCTIONS = re.compile(r"// ---- Instructions .*?// ---- End of instructions ----", re.DOTALL)
"""Inline assembly in a submission's text; tests/submissions/kernels/instructions_on_cpu.h says what it does."""


def kernel_text(submission: str) -> str:
    """The device code of a submission's cuda_source: what lies between the includes and the host side."""
    tree = ast.parse((ROOT / "submissions" / submission).read_text())
    source = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "cuda_source"
    )
    device = re.split(r"// ---- Host side|torch::Tensor ", source)[0]
    lines = [line for line in device.splitlines() if not line.startswith("#include")]
    text = INSTRUCTIONS.sub('#include "instructions_on_cpu.h"', "\n".join(lines))
    # Dynamic shared memory is an array that the glue defines.
    return text.replace("extern __shared__", "extern")


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
    "recurrence_best.py": """
float4 shared[SLOTS * sizeof(Slot<2>) / sizeof(float4)];
extern "C" void run(const float* a, const float* b, float* h, float*, int B, int L, int D) {
    if (D % 2 == 0) launch(B * ((D + 63) / 64), WARPS * 32, [=] { scan<2>(a, b, h, L, D); });
    else launch(B * ((D + 31) / 32), WARPS * 32, [=] { scan<1>(a, b, h, L, D); });
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
    if submission == "recurrence_best.py":
        sizes += [(2, 64, 64), (1, 6 * 64 + 1, 70), (2, 65, 33)]  # chunks of 64 steps; two channels a lane, and one
    for B, L, D in sizes:
        a, b = torch.rand(B, L, D), torch.randn(B, L, D)
        h, scratch = torch.full_like(b, torch.nan), torch.full((4, *b.shape), torch.nan)
        library.run(pointer(a), pointer(b), pointer(h), pointer(scratch), *ints(B, L, D))
        assert_close(h, model(a, b))


def test_triton_recurrence_agrees_with_the_loop() -> None:
    """Triton's interpreter runs a kernel's operations one by one; it has to be asked for before triton is imported."""
    pytest.importorskip("triton")
    program = """
import runpy, torch
recurrence = runpy.run_path("submissions/recurrence_triton.py")["ModelNew"]()
model = runpy.run_path("problems/linear_recurrence/reference.py")["Model"]()
torch.manual_seed(6)
for B, L, D in [(1, 1, 1), (1, 130, 37), (2, 64, 64)]:
    a, b = torch.rand(B, L, D), torch.randn(B, L, D)
    torch.testing.assert_close(recurrence(a, b), model(a, b), atol=1e-5, rtol=1e-5)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200
    )
    if "only 0-dimensional arrays can be converted" in ran.stderr:
        pytest.skip("Triton's interpreter is older than numpy here: that of torch 2.6 works below numpy 2.4")
    assert ran.returncode == 0, ran.stderr


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


def test_fast_selective_scan_agrees_with_the_loop(tmp_path: Path) -> None:
    glue = """
float4 shared[STAGES * sizeof(Stage) / sizeof(float4)];
template <int PIECE>
void run_both(const float* x, const Weights& weights, const float* A_log, const float* skip, float* delta, float* BC,
              float* y, int batch, int L, int D) {
    const int rows = batch * L;
    const int blocks = (rows + TILE_ROWS - 1) / TILE_ROWS * ((D + 2 * STATES + TILE_COLUMNS - 1) / TILE_COLUMNS);
    launch(blocks, PROJECT_THREADS, [=] { project<PIECE>(x, weights, delta, BC, rows, D); });
    launch(batch * ((D + CHANNELS - 1) / CHANNELS), SCAN_THREADS,
           [=] { scan<PIECE>(x, delta, BC, A_log, skip, y, L, D); });
}
extern "C" void run(const float* x, const float* delta_weight, const float* delta_bias, const float* B, const float* C,
                    const float* A_log, const float* skip, float* delta, float* BC, float* y, int batch, int L, int D) {
    const Weights weights{delta_weight, delta_bias, B, C};
    (D % 4 == 0 ? run_both<4> : run_both<1>)(x, weights, A_log, skip, delta, BC, y, batch, L, D);
}
"""
    library = compile_glue("s6_v3.py", glue, tmp_path)
    problem = Problem.load(ROOT / "problems/selective_scan")
    reference = problem.module(problem.workload(None, "cpu"))
    torch.manual_seed(4)
    for batch, length, d_model in [(1, 1, 1), (2, 70, 36), (1, 33, 5), (1, 7, 72)]:
        model = reference.Model(d_model, 16)
        torch.nn.init.normal_(model.D)
        x = torch.randn(batch, length, d_model)
        with torch.no_grad():
            expected = model(x)
        weights = [
            *(model.proj_delta.weight, model.proj_delta.bias, model.proj_B.weight, model.proj_C.weight),
            *(model.A_log, model.D),
        ]
        delta, BC, y = torch.full_like(x, torch.nan), torch.full((batch, length, 32), torch.nan), torch.empty_like(x)
        y.fill_(torch.nan)
        arguments = (x, *(weight.detach() for weight in weights), delta, BC, y)
        library.run(*(pointer(tensor) for tensor in arguments), *ints(batch, length, d_model))
        assert_close(y, expected)
        wide = model.double()
        with torch.no_grad():
            exact = torch.nn.functional.softplus(wide.proj_delta(x.double()))
        assert float((delta - exact).abs().max()) < 1e-6  # products of fp32's accuracy, not of tf32's


def test_split_product_has_the_accuracy_of_fp32(tmp_path: Path) -> None:
    glue = """
alignas(1024) uint8_t dynamic[SHARED];
extern "C" void run(const float* x, const float* w, void* x_tiles, void* w_tiles, float* x_back, float* w_back,
                    float* z, int M, int N, int K) {
    shared_base = dynamic;
    const int row_tiles = (M + TILE - 1) / TILE, column_tiles = (N + TILE - 1) / TILE;
    __half* xt = static_cast<__half*>(x_tiles);
    __half* wt = static_cast<__half*>(w_tiles);
    launch(row_tiles * TILE, THREADS, [=] { split_rows(x, xt, x_back, M, K); });
    launch(column_tiles * TILE, THREADS, [=] { split_rows(w, wt, w_back, N, K); });
    launch(row_tiles * column_tiles, CONSUMERS + 128,
           [=] { product(xt, wt, x_back, w_back, z, M, N, (K + DEPTH - 1) / DEPTH); });
}
"""
    library = compile_glue("gemm_bn_softmax_best.py", glue, tmp_path)
    torch.manual_seed(5)
    for rows, columns, depth in [(9, 131, 257), (3, 5, 452)]:  # ends of tiles; more stages than there is room for
        x, w = torch.rand(rows, depth), torch.randn(columns, depth)
        x[0] *= 1e-20  # each row is scaled by itself
        w[0, 0] = 300.0
        tiles = [torch.full((256 * (depth + 63) // 64 * 64 * 2,), torch.nan, dtype=torch.float16) for _ in range(2)]
        backs = [torch.full((rows,), torch.nan), torch.full((columns,), torch.nan)]
        z = torch.full((rows, columns), torch.nan)
        places = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, w, *tiles, *backs, z)]
        library.run(*places, *ints(rows, columns, depth))
        exact = x.double() @ w.double().T
        terms = x.double() @ w.double().abs().T
        assert float(((z - exact).abs() / terms).max()) < 3e-7


@pytest.mark.parametrize("submission", ["gemm_bn_softmax_v1.py", "gemm_bn_softmax_best.py"])
def test_batch_norm_softmax_kernels_agree_with_torch(submission: str, tmp_path: Path) -> None:
    apart = submission == "gemm_bn_softmax_best.py"  # its product leaves the layer's bias to finalise
    glue = """
extern "C" void run(const float* z, const float* layer_bias, const float* weight, const float* bias, const float* scale,
                    float* running_mean, float* running_var, float* sums, float* columns, float* out, int M, int N) {
    float* mean = columns;
    float* multiplier = mean + N;
    float* offset = multiplier + N;
    const dim3 grid((N + COLUMNS - 1) / COLUMNS, (M + ROWS - 1) / ROWS);
    launch(grid, dim3(COLUMNS, ROW_LANES), [=] { column_sums(z, sums, M, N); });
    launch((N + THREADS - 1) / THREADS, THREADS, [=] {
        finalise(z, sums, LAYER_BIAS weight, bias, scale, running_mean, running_var, mean, multiplier, offset, M, N,
                 1e-5f, 0.1f);
    });
    launch(M, THREADS, [=] { normalise_softmax(z, mean, multiplier, offset, out, N); });
}
""".replace("LAYER_BIAS", "layer_bias," if apart else "")
    library = compile_glue(submission, glue, tmp_path)
    problem = Problem.load(ROOT / "problems/gemm_bn_scale_softmax")
    reference = problem.module(problem.workload(None, "cpu"))
    torch.manual_seed(3)
    for rows, columns in [(9, 40)] if apart else [(2, 3), (37, 131), (150, 40), (9, 700)]:
        model = reference.Model(5, columns, 1e-5, 0.1, (1,))
        x = torch.rand(rows, 5)
        with torch.no_grad():
            z = model.gemm(x)
            state = [model.bn.running_mean.clone(), model.bn.running_var.clone()]
            expected = model(x)
        bias = model.gemm.bias.detach()
        if apart:
            z = z - bias
        out = torch.full_like(z, torch.nan)
        sums, scratch = torch.zeros(2, columns), torch.full((3, columns), torch.nan)
        weights = [bias, model.bn.weight.detach(), model.bn.bias.detach(), model.scale.detach()]
        arguments = (z, *weights, *state, sums, scratch, out)
        library.run(*(pointer(tensor) for tensor in arguments), *ints(rows, columns))
        assert_close(out, expected)
        assert_close(state[0], model.bn.running_mean)
        assert_close(state[1], model.bn.running_var)
