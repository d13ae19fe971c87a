"""CUDA builds without torch's headers, a second or two each: what ptxas and nvcc say, with hints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from build_samples import tiny

from harness.build import BuildOutcome, BuildService, ExtensionRequest
from harness.build.toolchain import Toolchain

pytestmark = pytest.mark.nvcc

SUBMISSIONS = Path(__file__).parents[2] / "submissions"


def build(service: BuildService, request: ExtensionRequest) -> BuildOutcome:
    return service.build(request, arch=("9.0",), device="cuda")


def first_hint(outcome: BuildOutcome) -> str:
    assert outcome.diagnostics, outcome.log
    return outcome.diagnostics[0].hint or ""


def test_resources_of_each_kernel_are_reported_for_the_one_architecture(service: BuildService) -> None:
    kernels = """
    template <int N>
    __global__ void doubled(float* x) { __shared__ float s[N]; s[threadIdx.x] = x[0]; x[1] = 2 * s[0]; }
    void go(float* x) { doubled<64><<<1, 64>>>(x); doubled<128><<<1, 128>>>(x); }
    """
    outcome = build(service, tiny(cuda=kernels))
    assert outcome.ok, outcome.log
    assert {(kernel.name, kernel.arch, kernel.shared_bytes) for kernel in outcome.kernels} == {
        ("doubled<64>", "sm_90", 256),
        ("doubled<128>", "sm_90", 512),
    }
    assert all(0 < kernel.registers <= 255 for kernel in outcome.kernels)
    assert outcome.diagnostics == []


def test_a_kernel_that_spills_is_warned_of(service: BuildService) -> None:
    kernel = """
    __global__ void heavy(float* x) {
      float v[96];
    #pragma unroll
      for (int i = 0; i < 96; ++i) v[i] = x[i * 32 + threadIdx.x];
    #pragma unroll
      for (int r = 0; r < 4; ++r)
    #pragma unroll
        for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + r) % 96] + v[(i + 13) % 96];
    #pragma unroll
      for (int i = 0; i < 96; ++i) x[i * 32 + threadIdx.x] = v[i];
    }
    void go(float* x) { heavy<<<1, 32>>>(x); }
    """
    outcome = build(service, tiny(cuda=kernel, extra_cuda_cflags=["-maxrregcount=32"]))
    assert outcome.ok, outcome.log
    (warning,) = [d for d in outcome.diagnostics if d.severity == "warning"]
    assert "heavy spills registers" in warning.message
    assert outcome.kernels[0].spill_store_bytes > 0


MISTAKES = {
    "two parameters with one name": (
        "__global__ void k(const float* x,\n                  int L, int L) {}",
        "Two parameters of this function are called L",
    ),
    "over 48 KB of static shared memory": (
        "__global__ void k(float* x) { __shared__ float s[20000]; s[threadIdx.x] = x[0]; x[1] = s[5]; }",
        "80000 bytes of __shared__ arrays; 49152 (48 KB)",
    ),
    "dynamic shared memory declared with two types": (
        "__global__ void a(float* x) { extern __shared__ float s[]; x[0] = s[0]; }\n"
        "__global__ void b(int* x) { extern __shared__ int s[]; x[0] = s[0]; }",
        "Static and dynamic shared memory are mixed",
    ),
    "an instruction of another architecture": (
        '__global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }',
        "sm_90a",
    ),
    "an unknown header": ("#include <cutlass/nothing.h>", "CUTLASS"),
    "half operators": (
        "#include <cuda_fp16.h>\n__global__ void k(__half* x) { x[0] = x[1] + x[2]; }",
        "-U__CUDA_NO_HALF_OPERATORS__",
    ),
    "a device lambda": (
        "template <class F> __global__ void k(F f) { f(); }\nvoid go() { k<<<1, 1>>>([] __device__() {}); }",
        "--extended-lambda",
    ),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_in_kernels_come_with_what_to_do(service: BuildService, toolchain: Toolchain, mistake: str) -> None:
    text, words = MISTAKES[mistake]
    outcome = build(service, tiny(cuda=text))
    # The ptxas of CUDA 12 lets too much shared memory pass; then it is a warning.
    passes = "shared memory" in mistake and "static" in mistake and "cuda_12." in str(toolchain.nvcc_version)
    assert outcome.ok is passes
    assert words in first_hint(outcome), outcome.log


def test_a_kernel_launched_from_cpp_sources(service: BuildService) -> None:
    outcome = build(service, tiny(before="void k(float*);\nvoid go(float* x) { k<<<1, 32>>>(x); }", cuda="int unused;"))
    hints = [d.hint or "" for d in outcome.diagnostics if d.severity == "error"]
    assert "move the kernel" in hints[0]
    assert (outcome.diagnostics[0].file, outcome.diagnostics[0].line) == ("cpp_sources", 4)


def test_own_module_beside_functions(service: BuildService) -> None:
    text = '#include <pybind11/pybind11.h>\nint f() { return 1; }\nPYBIND11_MODULE(tiny, m) { m.def("f", &f); }'
    request = ExtensionRequest.model_validate(
        {
            "kind": "load_inline", "name": "tiny", "cpp_sources": text, "functions": ["f"],
            "no_implicit_headers": True, "with_pytorch_error_handling": False,
        }
    )  # fmt: skip
    outcome = build(service, request)
    assert not outcome.ok
    assert "take yours out" in first_hint(outcome)


CAPTURE = """
import inspect, json, runpy, sys
import torch.utils.cpp_extension as extension
plain = extension.load_inline
def load_inline(*args, **kwargs):
    given = inspect.signature(plain).bind(*args, **kwargs)
    given.apply_defaults()
    names = ("name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags")
    print("REQUEST " + json.dumps({name: given.arguments[name] for name in names}))
    sys.exit(0)
extension.load_inline = load_inline
runpy.run_path(sys.argv[1])
"""


def request_of(submission: Path) -> ExtensionRequest:
    said = subprocess.run([sys.executable, "-c", CAPTURE, str(submission)], capture_output=True, text=True, check=True)
    line = next(line for line in said.stdout.splitlines() if line.startswith("REQUEST "))
    return ExtensionRequest.model_validate(json.loads(line.removeprefix("REQUEST ")) | {"kind": "load_inline"})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_mistakes_of_the_first_selective_scan_are_named(kept_service: BuildService) -> None:
    outcome = build(kept_service, request_of(SUBMISSIONS / "s6_v1.py"))
    assert not outcome.ok
    hints = [d.hint or "" for d in outcome.diagnostics if d.severity == "error"]
    assert any("Two parameters of this function are called" in hint for hint in hints), outcome.diagnostics
    assert any("not declared in cpp_sources" in hint and 'cpp_sources="' in hint for hint in hints), outcome.diagnostics


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_samples_kernels_build_with_lean_headers(kept_service: BuildService) -> None:
    outcome = build(kept_service, request_of(SUBMISSIONS / "s6_v2.py"))
    assert outcome.ok, outcome.log
    assert outcome.recipe == "lean"
    assert outcome.kernels
