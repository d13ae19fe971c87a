"""Builds that take a second: success, the cache, failures, limits, and what a build can't see."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from build_samples import tiny

from harness import sandbox
from harness.build import BuildCache, BuildLimits, BuildOutcome, BuildService, ExtensionRequest, jobs
from harness.build.headers import HeaderStore
from harness.build.objects import Compiler
from harness.build.plan import make_plan
from harness.build.runner import plain_file
from harness.build.service import build_key
from harness.build.toolchain import MissingCompiler, Toolchain, discover


def build(service: BuildService, request: ExtensionRequest) -> BuildOutcome:
    return service.build(request, arch=("9.0",), device="cpu")


def load(outcome: BuildOutcome) -> Any:
    assert outcome.library is not None
    path = f"/proc/self/fd/{os.open(outcome.library, os.O_RDONLY)}"
    loader = importlib.machinery.ExtensionFileLoader(outcome.module_name, path)
    spec = importlib.util.spec_from_file_location(outcome.module_name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_a_build_is_loaded_by_descriptor_and_found_again(service: BuildService) -> None:
    lines: list[str] = []
    first = service.build(tiny(), arch=(), device="cpu", on_line=lines.append)
    assert first.ok, first.log
    assert not first.cached
    assert lines[-1] == "linking"
    assert load(first).answer() == 35
    again = build(service, tiny())
    assert again.cached
    assert (again.key, again.library) == (first.key, first.library)
    assert 0 < first.compiled_s <= first.seconds
    assert again.compiled_s == 0


@pytest.mark.parametrize(
    "other",
    [
        tiny(value="36"),
        tiny(name="other"),
        tiny(extra_cflags=["-O1"]),
        tiny(headers=[{"name": "h.h", "text": ""}]),
        tiny(with_pytorch_error_handling=False),
    ],
)
def test_another_content_has_another_key(service: BuildService, other: ExtensionRequest) -> None:
    def key(request: ExtensionRequest) -> str:
        return build_key(request, discover(), make_plan(request, discover(), ()))

    assert key(other) != key(tiny())
    assert key(tiny(verbose=True)) == key(tiny())


def test_files_of_load_find_each_other(service: BuildService) -> None:
    request = ExtensionRequest.model_validate(
        {
            "kind": "load",
            "name": "tiny",
            "sources": [
                {
                    "name": "src/module.cpp",
                    "text": tiny(before='#include "../inc/value.h"', value="VALUE + f()").cpp_sources[0],
                },
                {"name": "other/module.cpp", "text": "#include <value.h>\nint f() { return VALUE; }"},
            ],
            "headers": [{"name": "inc/value.h", "text": "#pragma once\n#define VALUE 4\nint f();\n"}],
            "extra_include_paths": ["inc"],
        }
    )
    assert load(build(service, request)).answer() == 8


def test_a_mistake_is_told_in_the_users_own_lines_and_remembered(service: BuildService) -> None:
    broken = tiny(before="int broken() {\n  return nowhere;\n}")
    outcome = build(service, broken)
    assert outcome.failure is not None
    assert outcome.failure.code == "build.failed"
    first = outcome.diagnostics[0]
    assert (first.file, first.line, first.severity) == ("cpp_sources", 4, "error")
    assert "nowhere" in first.message
    assert str(service.cache.root) not in outcome.log
    assert build(service, broken).cached


def test_a_full_disk_is_not_remembered_as_the_sources_mistake(service: BuildService) -> None:
    full = tiny(before="#error writing the object: No space left on device")
    assert build(service, full).failure is not None
    assert not build(service, full).cached


def test_a_function_that_is_defined_nowhere_is_told_of_before_the_import(service: BuildService) -> None:
    outcome = build(service, tiny(before="int lost(float);", value="lost(1.f)"))
    assert outcome.failure is not None
    assert outcome.diagnostics[0].message == "undefined reference to 'lost(float)'"
    assert "defined nowhere" in (outcome.diagnostics[0].hint or "")


def test_a_library_without_a_module_is_told_of_before_the_import(service: BuildService) -> None:
    nothing = ExtensionRequest(
        kind="load_inline", name="tiny", cpp_sources=("int f() { return 1; }",), no_implicit_headers=True
    )
    outcome = build(service, nothing)
    assert outcome.failure is not None
    assert "functions=[...]" in (outcome.diagnostics[0].hint or "")
    assert build(service, nothing.model_copy(update={"is_python_module": False})).ok


def test_flags_are_refused_before_anything_runs(service: BuildService) -> None:
    outcome = build(service, tiny(extra_cflags=["-O3", "-fplugin=evil.so"]))
    assert outcome.failure is not None
    assert outcome.failure.code == "build.flag_not_allowed"
    assert outcome.failure.evidence == {"flag": "-fplugin=evil.so", "where": "extra_cflags"}
    assert outcome.key == ""


def test_a_machine_without_a_cuda_compiler_says_what_is_missing(service: BuildService, toolchain: Toolchain) -> None:
    without = dataclasses.replace(
        toolchain, cuda=None, cuda_home=None, no_cuda=MissingCompiler("nvcc", "There is no CUDA toolkit: install it.")
    )
    bare = BuildService(service.sandbox, cache=service.cache, toolchain=without)
    outcome = bare.build(tiny(cuda="int x;"), arch=("9.0",), device="cuda")
    assert outcome.failure is not None
    assert outcome.failure.code == "build.no_compiler"
    assert "install" in outcome.failure.message
    assert outcome.failure.evidence["missing"] == "nvcc"
    assert build(bare, tiny()).ok


BOMBS: dict[str, tuple[str, list[str]]] = {
    "build.time_limit": (
        "constexpr long f() { long s = 0; for (long i = 0; i < 1L << 60; ++i) s ^= i; return s; }\n"
        "constexpr long x = f();",
        ["-fconstexpr-ops-limit=9000000000000000000", "-fconstexpr-loop-limit=2147483647"],
    ),
    "build.memory_limit": ('#include "/dev/zero"', []),
    "build.output_limit": ("\n".join(f'#pragma message("{"w" * 4000} {number}")' for number in range(600)), []),
    "build.disk_limit": ("char big[200 << 20] = {1};", []),
}


@pytest.mark.parametrize("code", list(BOMBS))
def test_a_limit_ends_the_build_and_is_named(tmp_path: Path, toolchain: Toolchain, code: str) -> None:
    before, flags = BOMBS[code]
    seconds = 4.0 if code == "build.time_limit" else 120.0
    limits = BuildLimits(step_s=seconds, memory_bytes=1 << 30, output_bytes=1 << 20, disk_bytes=64 << 20)
    service = BuildService(sandbox.default(), cache=BuildCache(tmp_path / "cache"), toolchain=toolchain, limits=limits)
    outcome = build(service, tiny(before=before, extra_cflags=flags))
    assert outcome.failure is not None
    assert outcome.failure.code == code, outcome.log[-2000:]
    assert "limit" in outcome.failure.evidence
    assert list((service.cache.root / "staging").iterdir()) == []


def needs_namespaces(service: BuildService) -> None:
    if service.sandbox.name == "none" or service.sandbox.name == "plain":
        pytest.skip("there is no sandbox here that hides the host's files")


ATTEMPTS = {
    "include": '#include "{secret}"',
    "incbin": 'asm(".incbin \\"{secret}\\"");',
    "has_include": '#if !__has_include("{secret}")\n#error "not there"\n#endif',
    "assembler include": 'asm(".include \\"{secret}\\"");',
    "home": '#include "{home}/.bash_history"\n#include "/etc/passwd"',
    "proc": '#include "/proc/1/environ"\n#error "stop"',
    "pragma dependency": '#pragma GCC dependency "{secret}"\n#pragma GCC error "stop"',
    "line": '#include "../../../../../../../../..{secret}"',
}


@pytest.mark.parametrize("way", list(ATTEMPTS))
def test_a_secret_of_the_host_can_not_be_read(service: BuildService, tmp_path: Path, way: str) -> None:
    needs_namespaces(service)
    secret = tmp_path / "secret.txt"
    secret.write_text("TOPSECRET = 12345\n")
    before = ATTEMPTS[way].format(secret=secret, home=Path.home())
    outcome = build(service, tiny(before=before, headers=[{"name": "h.h", "text": ""}]))
    assert not outcome.ok
    assert outcome.failure is not None
    assert outcome.failure.code == "build.failed"
    assert "TOPSECRET" not in outcome.log + repr(outcome.diagnostics)


def test_what_a_compiler_leaves_is_taken_only_as_a_plain_file(tmp_path: Path) -> None:
    secret, link, empty = tmp_path / "secret", tmp_path / "link", tmp_path / "empty"
    secret.write_text("x")
    link.symlink_to(secret)
    empty.touch()
    assert plain_file(secret, 10)
    assert not any(plain_file(path, 10) for path in (link, empty, tmp_path, tmp_path / "nothing", Path("/dev/zero")))
    assert not plain_file(secret, 0)


def test_linker_scripts_and_foreign_objects_have_no_way_in(service: BuildService, tmp_path: Path) -> None:
    for flag in ("-Wl,-T,script.ld", f"{tmp_path}/x.o", f"-L{tmp_path}", "-l:x", "-Wl,--just-symbols=/etc/passwd"):
        outcome = build(service, tiny(extra_ldflags=[flag]))
        assert outcome.failure is not None
        assert outcome.failure.code == "build.flag_not_allowed"


def test_only_real_names_of_kernels_become_arguments(
    service: BuildService, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    headers = HeaderStore(service.cache, toolchain, service.sandbox, service.limits, service.slots)
    compiler = Compiler(
        service.sandbox, toolchain, service.limits, service.slots, headers, tmp_path, lambda _: None, use_lean=False
    )
    names = ["@/etc/passwd", "--help", "_Z1k\0", "_Z" + "9" * 200_000, "plain", "_Z3addPf"]
    assert compiler.demangled(names) == {"_Z3addPf": "add"}


def _ask(root: str) -> bool:
    service = BuildService(sandbox.default(), cache=BuildCache(Path(root)))
    outcome = build(service, tiny(name="shared", before="#include <string>\n#include <vector>"))
    assert outcome.ok, outcome.log
    return outcome.cached


def test_many_askers_share_one_build(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        cached = pool.map(_ask, [str(tmp_path / "cache")] * 8, chunksize=1)
    assert cached.count(False) == 1


def test_only_time_in_which_its_compilers_run_is_a_builds_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it waits for others' compilers would be theirs to make it fail by."""
    clock = iter([10.0, 14.0, 100.0, 101.0])
    monkeypatch.setattr(jobs.time, "monotonic", lambda: next(clock))
    meter = jobs.Meter()
    with meter.runs(), meter.runs():  # side by side they count once
        pass
    with meter.runs():
        pass
    assert meter.seconds == 5.0
