"""Any request that is a request at all is planned or refused in the declared ways: nothing else may come out of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import PurePosixPath
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.build import ExtensionRequest
from harness.build.flags import FlagNotAllowed
from harness.build.plan import make_plan
from harness.build.service import build_key
from harness.build.toolchain import MissingCompiler, Toolchain

PIECES = [
    *("-O3", "-std=c++17", "-D", "-U", "-DN=4", "-I", "-isystem", "-iquote", "-I/usr", "-I/proc/self/root", "-Wall"),
    *("-l", "-lm", "-L", "-L/usr/lib", "-Wl,", "-Wl,-rpath,", "-Wl,-rpath=", "-R", "-fopenmp", "-march=native"),
    *("-Xcompiler", "-Xcompiler=", "-Xptxas", "-Xptxas=-v", "-Xcudafe", "--compiler-options", "--ptxas-options="),
    *("-arch", "-arch=sm_90a", "-code", "-code=sm_80", "-gencode", "arch=compute_90,code=sm_90", "-gencode=", "native"),
    *("\\'", '\\"', "'", '"', "\\", "`", "$(", "@", ",", "=", "/", "..", ".", "-", "--", " ", "\t", "\n"),
    *("x" * 300, "٩"),
]
FLAG = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=5).map("".join)
FLAGS = st.lists(FLAG, max_size=4)
NAME = st.sampled_from(["main.cpp", "cuda.cu", "sycl.sycl", "a", "b.h", "c.cu", "d.cpp", "e.", ".f", "g h"])
FILE_NAME = st.lists(NAME, min_size=1, max_size=3).map("/".join)
FILE = st.fixed_dictionaries({"name": FILE_NAME, "text": st.text(max_size=5)})
TEXTS = st.lists(st.text(max_size=10), max_size=2)
COMMON: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["ext", "a.b", "9", "e" * 128, "x-y", "a."]),
    "headers": st.lists(FILE, max_size=3),
    "extra_cflags": FLAGS,
    "extra_cuda_cflags": FLAGS,
    "extra_ldflags": FLAGS,
    "extra_include_paths": FLAGS | st.lists(FILE_NAME, max_size=2),
    "with_cuda": st.none() | st.booleans(),
    "is_python_module": st.booleans(),
    "no_implicit_headers": st.booleans(),
    "cuda_arch_list": st.none() | st.sampled_from(["9.0a", "8.0;9.0+PTX", "", "Hopper"]) | st.text(max_size=8),
}
INLINE = st.fixed_dictionaries(
    COMMON
    | {
        "kind": st.just("load_inline"),
        "cpp_sources": TEXTS,
        "cuda_sources": TEXTS,
        "functions": st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
    }
)
LOAD = st.fixed_dictionaries(COMMON | {"kind": st.just("load"), "sources": st.lists(FILE, min_size=1, max_size=3)})


def inline(**more: Any) -> dict[str, Any]:
    return {"kind": "load_inline", "name": "ext", "cpp_sources": ["int f();"], "with_cuda": True, **more}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(INLINE | LOAD)
@example(inline(extra_cuda_cflags=["-Xcompiler=\\'"]))
@example(inline(extra_include_paths=["/usr/include/a\0b"]))
@example(inline(headers=[{"name": "main.cpp/x", "text": ""}]))
@example(inline(extra_ldflags=["-Wl,-rpath," + "/x" * 3000]))
def test_whatever_is_asked_for_is_planned_or_refused(toolchain: Toolchain, data: dict[str, Any]) -> None:
    try:
        request = ExtensionRequest.model_validate_json(json.dumps(data))
    except ValidationError:
        return
    without_cuda = dataclasses.replace(toolchain, cuda=None, cuda_home=None)
    for machine in (toolchain, without_cuda):
        try:
            plan = make_plan(request, machine, ("9.0",))
        except (FlagNotAllowed, MissingCompiler):
            continue
        assert len(build_key(request, machine, plan)) == 64
        words = [word for unit in plan.units for word in (unit.source, unit.object, *unit.flags)] + [*plan.link_flags]
        assert not any("\0" in word for word in words)
        for name in plan.files:
            assert not {str(parent) for parent in PurePosixPath(name).parents} & set(plan.files)
