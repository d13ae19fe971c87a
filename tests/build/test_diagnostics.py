"""Compiler output becomes data: places in the user's text, folded noise, hints."""

# ruff: noqa: E501 (lines of compilers are as long as they are)

from __future__ import annotations

import pytest

from harness.build import ExtensionRequest
from harness.build.diagnostics import parse_compiler_output
from harness.build.explain import bounded, explain, linker_words, readable_kernel
from harness.build.headers import _STARTS_WITH_EXTENSION
from harness.build.hints import Sources
from harness.build.lean import LeanHeaders
from harness.build.plan import Plan, make_plan
from harness.build.ptxas import is_resource_line, parse_resources
from harness.build.toolchain import Toolchain

CUDA = """__global__ void scan(const float* x,
                     float* y, int L, int L) { y[0] = x[0]; }
torch::Tensor go(torch::Tensor x,
                 float scale) {
  return x;
}
__global__ void tile() { __shared__ float a[20000]; a[n] = 1; }
"""
CPP = """torch::Tensor other(torch::Tensor x);
void launch() { k<<<1, 32>>>(); }
"""


@pytest.fixture
def plan(toolchain: Toolchain) -> Plan:
    request = ExtensionRequest.model_validate(
        {
            "kind": "load_inline",
            "name": "ext",
            "cpp_sources": CPP,
            "cuda_sources": CUDA,
            "functions": ["go", "lost"],
            "with_cuda": False,
        }
    )
    return make_plan(request, toolchain, ("9.0",))


@pytest.mark.parametrize(
    ("line", "place", "severity", "message"),
    [
        ("main.cpp:12:5: error: expected ';'", ("main.cpp", 12, 5), "error", "expected ';'"),
        ("main.cpp:1:10: fatal error: no.h: No such file or directory", ("main.cpp", 1, 10), "error", "no.h: No such file or directory"),
        ('cuda.cu(7): error: identifier "n" is undefined', ("cuda.cu", 7, None), "error", 'identifier "n" is undefined'),
        ("cuda.cu(7): warning #177-D: variable was declared", ("cuda.cu", 7, None), "warning", "variable was declared"),
        ("cuda.cu(1): catastrophic error: cannot open source file \"x.h\"", ("cuda.cu", 1, None), "error", 'cannot open source file "x.h"'),
        ("ptxas error   : Entry function 'k' uses too much shared data", (None, None, None), "error", "Entry function 'k' uses too much shared data"),
        ("ptxas /tmp/x.ptx, line 9; error   : Feature needs sm_90a", ("/tmp/x.ptx", 9, None), "error", "Feature needs sm_90a"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_13'", (None, None, None), "error", "Unsupported gpu architecture 'compute_13'"),
        ("x.s:4: Error: file not found: /etc/shadow", ("x.s", 4, None), "error", "file not found: /etc/shadow"),
        ("main.cpp:(.text+0x1): undefined reference to `f(int)'", (None, None, None), "error", "undefined reference to 'f(int)'"),
        ("/usr/bin/ld: cannot find -lfoo: No such file or directory", (None, None, None), "error", "cannot find -lfoo"),
    ],
)  # fmt: skip
def test_one_line(line: str, place: tuple[object, ...], severity: str, message: str) -> None:
    (found,) = parse_compiler_output(line)
    assert (found.file, found.line, found.column) == place
    assert (found.severity, found.message.rstrip(":")) == (severity, message)


def hints(plan: Plan, text: str) -> list[str]:
    return [d.hint or "" for d in explain(text, plan, []).diagnostics]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "main.cpp:5:12: error: 'go' was not declared in this scope",
            "torch::Tensor go(torch::Tensor x, float scale);",
        ),
        ("main.cpp:5:12: error: 'lost' was not declared in this scope", "no such function is declared in cpp_sources"),
        ("cuda.cu(5): error: duplicate parameter name", "Two parameters of this function are called L"),
        ("main.cpp:3:18: error: expected primary-expression before '<' token", "move the kernel"),
        ("main.cpp:9:1: error: redefinition of 'PyObject* PyInit_ext()'", "take yours out"),
        ("/usr/bin/ld: x.o: multiple definition of `PyInit_ext'; y.o: first defined here", "take yours out"),
        ("main.cpp:1:10: fatal error: cutlass/cutlass.h: No such file or directory", "CUTLASS"),
        ("main.cpp:1:10: fatal error: nope.h: No such file or directory", "There is no header nope.h"),
        (
            "x.o: undefined reference to `go(at::Tensor)'",
            "cuda_sources:3 defines torch::Tensor go(torch::Tensor x, float scale)",
        ),
        ("x.o: undefined reference to `lost(at::Tensor)'", "defined nowhere"),
        ("x.o: undefined reference to `__half* at::TensorBase::data_ptr<__half>() const'", "at::Half"),
        ("/usr/bin/ld: required symbol `PyInit_ext' not defined", "functions=[...]"),
        (
            "ptxas error   : Entry function 'tile' uses too much shared data (0x13880 bytes, 0xc000 max)",
            "80000 bytes of __shared__",
        ),
        ("ptxas /tmp/x.ptx, line 9; error   : Instruction 'wgmma' not supported on .target 'sm_90'", "sm_90a"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_13'", "does not know that architecture"),
        (
            'cuda.cu(10): error: declaration is incompatible with "float a[]"',
            "Static and dynamic shared memory are mixed",
        ),
        ('cuda.cu(6): error: no operator "+" matches these operands: __half + __half', "-U__CUDA_NO_HALF_OPERATORS__"),
        ("/usr/bin/ld: cannot find -lfoo: No such file or directory", "no library foo"),
    ],
)
def test_hints(plan: Plan, text: str, words: str) -> None:
    found = hints(plan, text)
    assert found, "no diagnostic was read"
    assert words in found[0]


def test_errors_come_first_and_notes_are_folded(plan: Plan) -> None:
    text = "\n".join(
        [
            "main.cpp:2:1: warning: unused",
            "main.cpp:3:1: error: first",
            *(f"main.cpp:3:1: note: candidate {number}" for number in range(20)),
            "main.cpp:4:1: error: second",
            "main.cpp:4:1: error: second",
            "ATen/core/Tensor.h:9:1: warning: somebody else's",
        ]
    )
    assert [d.message for d in explain(text, plan, []).diagnostics] == ["first", "second", "unused", "candidate 0"]


def test_what_the_interpreter_provides_is_not_undefined(plan: Plan) -> None:
    text = "a.o: in function `f':\na.cpp:(.text+1): warning: undefined reference to `PyErr_Occurred'\n"
    assert linker_words(text) == ""
    assert not explain(text, plan, []).fatal
    lost = "a.cpp:(.text+1): warning: undefined reference to `lost(at::Tensor)'"
    assert explain(lost, plan, []).fatal
    assert explain(lost, plan, []).diagnostics[0].severity == "error"


PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4scanPf' for 'sm_90'
ptxas info    : Function properties for helper
    400 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Function properties for _Z4scanPf
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 8 bytes cumulative stack size, 1024+16 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
ptxas info    : Used 8 registers, 368 bytes cmem[0]
"""


def test_ptxas_resources_and_the_warning_where_it_spills(plan: Plan) -> None:
    scan, add = parse_resources(PTXAS, lambda name: {"_Z4scanPf": "scan"}.get(name, name))
    assert scan.model_dump() == {
        "name": "scan", "arch": "sm_90", "registers": 32, "shared_bytes": 1040, "stack_bytes": 8,
        "spill_store_bytes": 4, "spill_load_bytes": 12, "constant_bytes": 388,
    }  # fmt: skip
    assert (add.registers, add.stack_bytes) == (8, 0)
    (warning,) = explain("", plan, [scan, add]).diagnostics
    assert warning.severity == "warning"
    assert "scan spills" in warning.message
    assert all(is_resource_line(line) for line in PTXAS.splitlines())


def test_too_much_static_shared_memory_is_warned_of_where_ptxas_says_nothing(plan: Plan) -> None:
    (scan, *_) = parse_resources(PTXAS.replace("1024+16 bytes smem", "49153 bytes smem"))
    messages = [d.message for d in explain("", plan, [scan]).diagnostics]
    assert any("uses too much shared data (49153 bytes, 49152 max)" in message for message in messages)
    hints = [d.hint or "" for d in explain("", plan, [scan]).diagnostics]
    assert any("cudaFuncAttributeMaxDynamicSharedMemorySize" in hint for hint in hints)
    said = "ptxas error   : Entry function '_Z4scanPf' uses too much shared data (0xc001 bytes, 0xc000 max)"
    assert sum("too much shared" in d.message for d in explain(said, plan, [scan]).diagnostics) == 1


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
        ("void scan<float, 4>(float const*, int)", "scan<float, 4>"),
        ("add(float*)", "add"),
        ("void (anonymous namespace)::k<(int)3>(int)", "(anonymous namespace)::k<(int)3>"),
        ("_Z3broken", "_Z3broken"),
    ],
)
def test_names_of_kernels_are_readable(demangled: str, name: str) -> None:
    assert readable_kernel(demangled) == name


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "output",
    [
        "main.cpp:1:1: error: " + "w" * 2_000_000,
        "9" * 1_000_000,
        "nvcc" + " " * 1_000_000,
        "undefined reference to `" * 50_000,
        "Compiling entry function '" * 50_000,
        "ptxas info    : Used " + "1" * 500_000,
        "main.cpp:3:18: error: redefinition of '" + "(a, a" * 100_000,
        "\n".join(f"ATen/x.h:{number}:1: error: e{number}" for number in range(100_000)),
    ],
)
def test_hostile_output_is_read_in_a_moment(plan: Plan, output: str) -> None:
    read = bounded(output)
    explain(linker_words(read), plan, parse_resources(read))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text", ["w" * 2_000_000, "/**/ " * 100_000, "# " * 500_000, "torch::" * 200_000, "int f(" * 100_000]
)
def test_hostile_sources_are_read_in_a_moment(text: str, toolchain: Toolchain) -> None:
    lean = LeanHeaders(toolchain.torch_root / "include")
    lean.unit_header([text], cuda=True)
    _STARTS_WITH_EXTENSION.match(text)
    sources = Sources({"cpp_sources": text}, with_functions=True)
    sources.definition("f")
