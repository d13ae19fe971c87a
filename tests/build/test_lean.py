"""Lean headers: what a unit's header holds, and that lean and full builds of a wide range of sources are the same."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from build_samples import CORPUS

from harness.build import BuildOutcome, BuildService, ExtensionRequest, SourceFile
from harness.build.headers import _flags_of_header
from harness.build.lean import LeanHeaders

SOURCES = ("bindings.cpp", "factories.cu", "dispatch.cu", "streams.cu", "device.cu", "functional.cu")


@pytest.fixture(scope="module")
def lean() -> LeanHeaders:
    headers = LeanHeaders(Path(torch.__file__).parent / "include")
    if not headers.supported:
        pytest.skip("this torch has not the headers that lean ones are made of")
    return headers


def test_a_unit_gets_the_operators_it_names_and_torchs_own_factories(lean: LeanHeaders) -> None:
    header = lean.unit_header(["auto y = torch::zeros_like(x); at::matmul(a, b); my_kernel(y);"], cuda=True)
    assert header is not None
    assert "#include <ATen/ops/matmul.h>" in header
    assert "inline at::Tensor zeros_like(" in header
    assert "ATen/ops/cumsum.h" not in header
    assert "make_variable" not in header


def test_pasted_names_bring_all_factories(lean: LeanHeaders) -> None:
    header = lean.unit_header(["#define MAKE(x) torch::x##_like(y)"], cuda=True)
    assert header is not None
    assert "inline at::Tensor ones_like(" in header


@pytest.mark.parametrize(
    "text",
    [
        "namespace F = torch::nn::functional;",
        "torch::jit::load(path);",
        "#include <torch/script.h>",
        "#include <torch/nn.h>",
        "at::native::add(x, y);",
        "class F : public torch::autograd::Function<F> {};",
    ],
)
def test_what_only_the_full_headers_hold_is_not_tried_lean(lean: LeanHeaders, text: str) -> None:
    assert lean.unit_header([text], cuda=True) is None


def test_bindings_in_a_cuda_source_bring_pybind(lean: LeanHeaders) -> None:
    assert "harness/python.h" in (lean.unit_header(["PYBIND11_MODULE(x, m) {}"], cuda=True) or "")
    assert "harness/python.h" not in (lean.unit_header(["int f();"], cuda=True) or "")


def test_the_names_of_torch_are_the_installed_torchs(lean: LeanHeaders) -> None:
    shadows = lean.shadows()
    assert "using namespace at;" in shadows["harness/types.h"]
    assert "kFloat32" in shadows["harness/types.h"]
    assert "ATen/Context.h" not in shadows["ATen/ops/empty.h"]
    assert {"torch/extension.h", "torch/types.h", "ATen/ATen.h"} <= set(shadows)


def test_headers_are_precompiled_for_common_flags_only() -> None:
    common = ("-isystem", "/x", "-DTORCH_API_INCLUDE_EXTENSION_H", "-fPIC", "-std=c++17", "-O3", "-DMINE=1", "-Wall")
    assert _flags_of_header(common) == [
        *("-isystem", "/x", "-DTORCH_API_INCLUDE_EXTENSION_H", "-fPIC", "-std=c++17", "-O3")
    ]
    assert _flags_of_header((*common, "-march=native")) is None
    assert _flags_of_header((*common, "-isystem", "own")) is None


def load(outcome: BuildOutcome) -> ModuleType:
    assert outcome.library is not None, outcome.log[-4000:]
    path = f"/proc/self/fd/{os.open(outcome.library, os.O_RDONLY)}"
    loader = importlib.machinery.ExtensionFileLoader(outcome.module_name, path)
    spec = importlib.util.spec_from_file_location(outcome.module_name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_lean_and_full_builds_of_a_wide_range_of_sources_are_the_same(kept_service: BuildService) -> None:
    texts = {name: (CORPUS / name).read_text() for name in SOURCES}
    one_by_one = ExtensionRequest(
        kind="load", name="corpus", sources=tuple(SourceFile(name=name, text=text) for name, text in texts.items())
    )
    lean = kept_service.build(one_by_one, arch=("9.0",), device="cuda")
    assert lean.ok, lean.log[-4000:]
    assert lean.recipe == "mixed"  # functional.cu is the one that only the full headers can do

    # The full headers take a minute and a half a unit, so they are read once for all sources of CUDA.
    joined = "\n".join(text for name, text in texts.items() if name.endswith(".cu"))
    together = ExtensionRequest(
        kind="load",
        name="corpus_full",
        sources=(SourceFile(name="bindings.cpp", text=texts["bindings.cpp"]), SourceFile(name="all.cu", text=joined)),
    )
    plain = BuildService(kept_service.sandbox, cache=kept_service.cache, use_lean=False)
    full = plain.build(together, arch=("9.0",), device="cuda")
    assert full.recipe == "full"
    assert {kernel.name: kernel for kernel in lean.kernels} == {kernel.name: kernel for kernel in full.kernels}
    compare(load(lean), load(full))


def compare(lean: ModuleType, full: ModuleType) -> None:
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    calls: list[Callable[[ModuleType], object]] = [
        lambda module: module.made(x),
        lambda module: module.algebra(x, x * 0.5),
        lambda module: module.gradient_is_kept(),
        lambda module: module.printed(x),
        lambda module: module.on_host(x, 3.0),
        lambda module: module.on_host(x.half(), None),
        lambda module: module.on_host(x.int(), 2.0),
        lambda module: module.refusal(x),
        lambda module: module.padded(x),
        lambda module: module.keyword(x, {"factor": 2.5}),
    ]
    for call in calls:
        assert repr(call(lean)) == repr(call(full))
        torch.testing.assert_close(call(lean), call(full), rtol=0, atol=0) if not isinstance(
            call(full), bool | str
        ) else None
    for module in (lean, full):
        with pytest.raises(RuntimeError, match="expected 2 dimensions, got 1"):
            module.on_device(torch.zeros(3))


def test_every_sample_of_the_corpus_is_compiled(tmp_path: Path) -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(SOURCES)
