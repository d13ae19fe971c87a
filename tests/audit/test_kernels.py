"""Whose a kernel is: by what was built and what the text says, never by what is launched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audit.kernels import attribute, base_name, names_in_library, names_in_text, own_share, qualified
from harness.audit.notes import kernel_warnings
from harness.build.diagnostics import KernelResources
from harness.build.outcome import BuildOutcome
from harness.judge.evidence import Evidence


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z3addPf", "add"),
        ("_ZN4scan4stepIfLi4EEEvPT_", "scan::step"),
        ("_ZN12_GLOBAL__N_14stepEPf", "(anonymous namespace)::step"),
        ("_ZL4stepPf", "step"),
        ("_Z4stepIfEvPT_", "step"),
        ("_Z99add", ""),
        ("_Zfoo", ""),
    ],
)
def test_a_mangled_name_is_read(mangled: str, name: str) -> None:
    assert qualified(mangled) == name


@given(st.text(alphabet="_ZNLKE0123456789abI", max_size=60))
def test_any_mangled_name_is_read(text: str) -> None:
    qualified("_Z" + text)


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("void scan::step<float, 4>(float*)", "scan::step"),
        ("add(float*)", "add"),
        ("void (anonymous namespace)::step<int>(int*)", "(anonymous namespace)::step"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ],
)
def test_a_shown_name_is_read(shown: str, name: str) -> None:
    assert base_name(shown) == name


def test_names_come_from_the_file_and_from_the_text(tmp_path: Path) -> None:
    library = tmp_path / "a.so"
    library.write_bytes(b"\x7fELF\x00_ZN2ns4stepEPf\x00_Z3addPf\x00garbage_Z\x00")
    assert names_in_library(library) == {"ns::step", "add"}
    assert names_in_library(tmp_path / "gone.so") == set()
    text = '''
import triton
@triton.jit
def fused(x): pass
@triton.autotune(configs=[])
@triton.jit
def tuned(x): pass
def plain(x): pass
cuda = """
extern "C" __global__ void __launch_bounds__(256) raw(const float* x) {}
template <typename T> __global__ void typed(T* x) {}
"""
'''
    assert names_in_text(text) == {"fused", "tuned", "raw", "typed"}
    assert names_in_text("def (") == set()
    names_in_text("__global__ " + "a" * 200_000)
    names_in_text("__global__" * 50_000)
    # Python bears it, and written out as text it would not end well.
    deep = "@jit" + ".a" * 600 + "\ndef deep(): pass\n@a" + "(0)" * 600 + "\ndef other(): pass"
    assert names_in_text(deep) == {"deep"}


def test_each_kernel_has_an_origin() -> None:
    kernels = attribute(
        [
            ("void at::native::add<float>(float*)", 3, 30.0),
            ("void ns::step<float>(float*)", 6, 60.0),
            ("fused", 3, 3.0),
            ("Memcpy DtoD (Device -> Device)", 3, 3.0),
            ("void cutlass::Kernel2<mine>(Params)", 3, 1.5),
            ("void cutlass::Kernel2<theirs>(Params)", 3, 1.5),
            ("sm90_xmma_gemm", 3, 1.0),
        ],
        # Naming a kernel of one's own as torch's are named does not make torch's one's own.
        library={"ns::step", "cutlass::Kernel2", "at::native::add"},
        text={"fused"},
        compiled=["void cutlass::Kernel2< mine >(Params)"],
        calls=3,
    )
    assert {kernel.name.split("(")[0].split("::")[-1]: kernel.origin for kernel in kernels} == {
        "step<float>": "extension",
        "add<float>": "library",
        "fused": "text",
        "Memcpy DtoD ": "copy",
        "Kernel2<mine>": "extension",
        "Kernel2<theirs>": "library",
        "sm90_xmma_gemm": "library",
    }
    assert own_share(kernels) == pytest.approx(64.5 / 100)
    assert kernels[0].calls == 2
    assert own_share([]) is None


def test_kernels_for_show_and_none_at_all_are_named() -> None:
    library = attribute([("sm90_xmma_gemm", 3, 30.0)], library=[], text=[], compiled=[], calls=3)
    built = BuildOutcome(
        ok=True,
        library=None,
        module_name="a",
        key="",
        cached=False,
        seconds=0.0,
        recipe="lean",
        diagnostics=[],
        log="",
        kernels=[
            KernelResources(
                name="step(float*)",
                arch="sm_90",
                registers=8,
                shared_bytes=0,
                stack_bytes=0,
                spill_store_bytes=0,
                spill_load_bytes=0,
                constant_bytes=0,
            )
        ],
    )
    assert [w.code for w in kernel_warnings(library, Evidence())] == ["audit.only_library_kernels"]
    assert [w.code for w in kernel_warnings(library, Evidence(builds=[built]))] == ["audit.kernels_not_launched"]
    own = attribute([("step(float*)", 3, 30.0)], library=["step"], text=[], compiled=[], calls=3)
    assert kernel_warnings(own, Evidence(builds=[built])) == []
