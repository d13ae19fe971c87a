"""What compilers may see, and the flags that are read from the installed torch."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.build import toolchain as toolchain_module
from harness.build.toolchain import FlagTemplate, Toolchain, visible


def test_torchs_own_flags_are_read(toolchain: Toolchain) -> None:
    flags = toolchain.cpu.cxx.fill("ext", ("-O3",))
    assert "-DTORCH_EXTENSION_NAME=ext" in flags
    assert "-fPIC" in flags
    assert str(toolchain.torch_root / "include") in flags
    assert not any("HARNESS" in flag for flag in flags)
    assert "-ltorch_python" in toolchain.cpu.link.fill("ext", ())


@pytest.mark.nvcc
def test_cuda_extensions_link_the_shared_runtime(toolchain: Toolchain) -> None:
    assert toolchain.cuda is not None
    assert "-lcudart" in toolchain.cuda.link.fill("ext", ())
    assert toolchain.cuda.nvcc is not None
    flags = toolchain.cuda.nvcc.fill("ext", ("-std=c++17",))
    assert "-D__CUDA_NO_HALF_OPERATORS__" in flags
    assert [flag for flag in flags if flag.startswith("-std=")] == ["-std=c++17"]
    assert not any("gencode" in flag for flag in flags)


def test_a_standard_of_the_users_replaces_torchs() -> None:
    template = FlagTemplate(before=("-fPIC",), after=("-std=c++20", "-x"))
    assert template.fill("ext", ()) == ["-fPIC", "-std=c++20", "-x"]
    assert template.fill("ext", ("-std=c++17",)) == ["-fPIC", "-std=c++17", "-x"]


def test_the_environment_is_built_from_nothing(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", "/secret")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-I/secret")
    assert set(toolchain.environment(tmp_path)) == {"PATH", "TMPDIR", "LC_ALL", "HOME"}


def test_mounts_hold_no_home_and_no_temporary_folder(toolchain: Toolchain) -> None:
    sources = {mount.source for mount in toolchain.mounts()}
    assert sources.isdisjoint(
        {Path("/"), Path("/root"), Path("/home"), Path("/tmp"), Path("/etc"), Path("/usr"), Path.home()}
    )
    assert not any(mount.writable for mount in toolchain.mounts())
    assert toolchain.torch_root / "include" in sources or (toolchain.torch_root / "include").resolve() in sources


def test_links_on_the_way_to_a_folder_are_shown_too(tmp_path: Path) -> None:
    real, between, name = tmp_path / "real-13.0", tmp_path / "between", tmp_path / "name"
    (real / "bin").mkdir(parents=True)
    between.symlink_to("real-13.0")
    name.symlink_to(between)
    assert {mount.source for mount in visible([name, real / "bin", tmp_path / "missing"])} == {name, between, real}
    assert os.path.realpath(name) == str(real)


def _toolkit(folder: Path, cuda: str) -> Path:
    """A CUDA toolkit as far as it is looked at."""
    for part in ("bin", "include"):
        (folder / part).mkdir(parents=True)
    (folder / "include" / "cuda_runtime.h").touch()
    nvcc = folder / "bin" / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho Build cuda_{cuda}.r{cuda}/compiler.1_0\n")
    nvcc.chmod(0o755)
    return folder


def test_of_several_toolkits_torchs_own_is_taken_and_a_named_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, own = _toolkit(tmp_path / "newer", "13.0"), _toolkit(tmp_path / "own", "12.4")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(toolchain_module, "_nvcc_top", lambda: str(own))
    torch = SimpleNamespace(version=SimpleNamespace(cuda="12.4"), __version__="2.6.0+cu124")
    extension = SimpleNamespace(CUDA_HOME=str(newer))
    assert toolchain_module._find_cuda(torch, extension) == (own, None)
    monkeypatch.setenv("CUDA_HOME", str(newer))
    assert toolchain_module._find_cuda(torch, extension) == (newer, None)
