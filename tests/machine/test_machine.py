"""Spare memory, with control groups as containers see them."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from harness.machine import spare as machine


def group(folder: Path, *, limit: str, used: int, cached: int, version: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\n{names[2]} {cached}\n")


@pytest.fixture
def spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def read(proc: str) -> int:
        (tmp_path / "proc").write_text(proc)
        monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
        monkeypatch.setattr(machine, "_MOUNT", tmp_path / "mount")
        return machine.spare_memory()

    return read


@pytest.mark.parametrize(
    ("version", "line", "where"), [(2, "0::/a/b\n", "mount"), (1, "4:cpu,memory:/a/b\n", "mount/memory")]
)
def test_the_tightest_limit_above_a_process_counts(spare, tmp_path: Path, version: int, line: str, where: str) -> None:
    mount = tmp_path / where
    group(mount / "a/b", limit="9000", used=1000, cached=0, version=version)
    group(mount / "a", limit="5000", used=4000, cached=300, version=version)
    assert spare(line) == 1300


def test_in_a_container_whose_groups_name_does_not_exist_inside_the_mounts_own_limit_counts(
    spare, tmp_path: Path
) -> None:
    group(tmp_path / "mount", limit="5000", used=6000, cached=0, version=2)
    assert spare("0::/docker/0123\n") == 0


@pytest.mark.parametrize("limit", ["max", str(1 << 62)])
def test_without_a_limit_it_is_what_the_machine_has(spare, tmp_path: Path, monkeypatch, limit: str) -> None:
    group(tmp_path / "mount", limit=limit, used=1, cached=0, version=2)
    available = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: available)
    assert spare("0::/\n") == available.available


def test_nothing_is_needed_of_the_system(spare) -> None:
    assert spare("") > 0


def test_here() -> None:
    assert 0 < machine.spare_memory() <= psutil.virtual_memory().total
