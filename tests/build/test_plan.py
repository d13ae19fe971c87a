"""Files and command lines are torch's own."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

from harness.build import ExtensionRequest
from harness.build.plan import choose_architecture, make_plan
from harness.build.toolchain import Toolchain

CALLS: list[dict[str, Any]] = [
    {"cpp_sources": "int f();", "functions": ["f"]},
    {"cpp_sources": ["int f();", "int g();\n"], "functions": {"f": "does f", "g": "does g"}},
    {"cpp_sources": "int f();", "cuda_sources": "int f() { return 1; }", "functions": "f"},
    {"cpp_sources": "", "cuda_sources": ["a\nb", "c"], "functions": ["f"], "with_pytorch_error_handling": False},
    {"cpp_sources": "// only text", "no_implicit_headers": True},
]


@pytest.mark.parametrize("call", CALLS)
def test_generated_files_are_the_ones_that_torch_writes(
    call: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolchain: Toolchain
) -> None:
    from torch.utils import cpp_extension

    if unknown := call.keys() - inspect.signature(cpp_extension.load_inline).parameters:
        pytest.skip(f"the load_inline of this torch has no {', '.join(unknown)}")
    # A copy: torch puts its own lines into the lists that it is given.
    monkeypatch.setattr(cpp_extension, "_jit_compile", lambda *args, **kwargs: None)
    cpp_extension.load_inline(name="ext", build_directory=str(tmp_path), **copy.deepcopy(call))
    theirs = {path.name: path.read_text() for path in tmp_path.iterdir()}
    # with_cuda off: the layout needs no CUDA compiler.
    request = ExtensionRequest.model_validate({"kind": "load_inline", "name": "ext", "with_cuda": False, **call})
    assert make_plan(request, toolchain, ("9.0",)).files == theirs


def plan_of(toolchain: Toolchain, **more: Any) -> Any:
    given = {"kind": "load_inline", "name": "ext", "cpp_sources": ["int f();\nint g();"], "functions": ["f"], **more}
    return make_plan(ExtensionRequest.model_validate(given), toolchain, ("9.0",))


def test_the_standard_is_torchs_unless_the_user_names_one(toolchain: Toolchain) -> None:
    assert any(flag.startswith("-std=c++") for flag in plan_of(toolchain).units[0].flags)
    flags = plan_of(toolchain, extra_cflags=["-std=gnu++17"]).units[0].flags
    assert [flag for flag in flags if flag.startswith("-std=")][-1] == "-std=gnu++17"


def test_lines_of_generated_files_are_the_users_own(toolchain: Toolchain) -> None:
    plan = plan_of(toolchain, cpp_sources=["int f();\nint g();", "int h();"])
    assert plan.locate("main.cpp", 3) == ("cpp_sources[0]", 2)
    assert plan.locate("main.cpp", 4) == ("cpp_sources[1]", 1)
    assert plan.locate("main.cpp", 6) == ("functions", None)
    assert plan.locate("other.h", 6) == ("other.h", 6)


def test_loaded_sources_keep_their_names(toolchain: Toolchain) -> None:
    request = ExtensionRequest.model_validate(
        {
            "kind": "load",
            "name": "ext",
            "sources": [{"name": "a/x.cpp", "text": "1"}, {"name": "b/x.cpp", "text": "2"}],
            "headers": [{"name": "a/h.h", "text": "3"}],
            "extra_include_paths": ["a"],
        }
    )
    plan = make_plan(request, toolchain, ())
    assert set(plan.files) == {"a/x.cpp", "b/x.cpp", "a/h.h"}
    assert len({unit.object for unit in plan.units}) == 2
    assert "-Ia" in plan.units[0].flags


@pytest.mark.parametrize(
    ("user", "arch_list", "ours", "left"),
    [
        ([], None, ["90"], []),
        ([], "9.0a", ["90a"], []),
        ([], "8.0;9.0+PTX", ["90"], []),
        ([], "8.0", ["90"], []),
        (["-arch=sm_90a"], None, ["90a"], []),
        (["-arch", "sm_90", "-O3"], None, ["90"], ["-O3"]),
        (["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"], None, ["90"], []),
        (["-gencode", "arch=compute_90a,code=sm_90a", "--use_fast_math"], None, ["90a"], ["--use_fast_math"]),
        (["-arch=sm_80"], None, [], ["-arch=sm_80"]),
        (["-DARCH=sm_80"], None, ["90"], ["-DARCH=sm_80"]),
    ],
)
def test_one_architecture_is_compiled_for(
    user: list[str], arch_list: str | None, ours: list[str], left: list[str]
) -> None:
    gencode, flags = choose_architecture(user, ("9.0",), arch_list)
    assert list(gencode) == [f"-gencode=arch=compute_{number},code=sm_{number}" for number in ours]
    assert flags == left


@pytest.mark.nvcc
def test_an_architecture_that_the_device_has_not_is_warned_of(toolchain: Toolchain) -> None:
    plan = plan_of(toolchain, cuda_sources=["int f() { return 1; }"], extra_cuda_cflags=["-arch=sm_80"])
    assert "sm_80" in plan.warnings[0].message
    assert plan_of(toolchain, cuda_sources=["int f() { return 1; }"]).warnings == ()


def test_a_form_of_the_devices_own_architecture_is_no_foreign_one() -> None:
    gencode, flags = choose_architecture(["-arch=sm_90a", "-O3"], ("9.0a",), None)
    assert gencode == ("-gencode=arch=compute_90a,code=sm_90a",)
    assert flags == ["-O3"]


@pytest.mark.nvcc
def test_a_toolkit_that_is_not_torchs_is_warned_of(toolchain: Toolchain) -> None:
    other = dataclasses.replace(toolchain, torch_cuda="12.4", nvcc_version="Build cuda_13.0.r13.0/compiler.36424714_0")
    (warning,) = plan_of(other, cuda_sources=["int f() { return 1; }"]).warnings
    assert "CUDA 13.0" in warning.message
    assert "CUDA toolkit 12.4" in str(warning.hint)
    assert plan_of(other).warnings == ()
    same = dataclasses.replace(other, torch_cuda="13.2")
    assert plan_of(same, cuda_sources=["int f() { return 1; }"]).warnings == ()
