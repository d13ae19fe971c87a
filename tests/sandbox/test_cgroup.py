"""Where control groups are made and what is read from them, for both versions of the interface."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.sandbox import Limit, Limits, cgroup

MB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for mounts, whose listings the module reads in place of /proc's."""
    monkeypatch.setattr(cgroup, "_PROC", tmp_path / "own")
    monkeypatch.setattr(cgroup, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").touch()
    (tmp_path / "own").touch()
    return tmp_path


def unified(machine: Path, own: str) -> Path:
    """Version 2, the grader in the group `own`."""
    mount = machine / "cgroup"
    (mount / own.strip("/")).mkdir(parents=True)
    (machine / "mounts").write_text(f"proc /proc proc rw 0 0\ncgroup2 {mount} cgroup2 rw,nosuid 0 0\n")
    (machine / "own").write_text(f"0::{own}\n")
    return mount


def test_a_group_is_made_below_the_nearest_one_that_passes_its_controllers_on(machine: Path) -> None:
    mount = unified(machine, "/user.slice/session.scope")
    (mount / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (mount / "user.slice" / "cgroup.subtree_control").write_text("memory pids\n")
    (mount / "user.slice" / "session.scope" / "cgroup.subtree_control").write_text("\n")
    places = [place.memory for place in cgroup._places()]
    assert places == [mount / "user.slice", mount]


def test_a_controller_that_is_not_passed_on_is_no_place(machine: Path) -> None:
    mount = unified(machine, "/")
    (mount / "cgroup.subtree_control").write_text("cpu pids\n")
    assert cgroup._places() == []


def test_version_1_has_a_place_for_each_controller(machine: Path) -> None:
    for name in ("memory/box", "pids", "cpu"):
        (machine / name).mkdir(parents=True)
    lines = [f"cgroup {machine / name} cgroup rw,{name} 0 0" for name in ("memory", "pids", "cpu")]
    (machine / "mounts").write_text("\n".join(lines))
    (machine / "own").write_text("4:memory:/box\n8:pids:/\n1:cpu,cpuacct:/\n0::/\n")
    assert cgroup._places() == [cgroup.Place(1, machine / "memory" / "box", machine / "pids")]


def test_a_group_of_version_2_is_limited_and_read(machine: Path) -> None:
    mount = unified(machine, "/")
    limits = Limits(memory_bytes=100 * MB, processes=30)
    group = cgroup.Group(cgroup.Place(2, mount, mount), limits)
    (folder,) = group.folders
    assert int((folder / "memory.max").read_text()) == cgroup.fence(100 * MB) > 100 * MB
    assert (folder / "memory.swap.max").read_text() == "0"
    assert int((folder / "pids.max").read_text()) == 30 + cgroup.EXTRA_TASKS
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n")
    (folder / "pids.events").write_text("max 0\n")
    assert group.broken() is None
    (folder / "pids.events").write_text("max 3\n")
    assert group.broken() == (Limit.PROCESSES, 30, 46)
    (folder / "memory.events").write_text("max 9\noom 1\noom_kill 1\n")
    (folder / "memory.peak").write_text("380000000\n")
    assert group.broken() == (Limit.MEMORY, 100 * MB, 380_000_000)


def test_a_limit_that_was_not_asked_for_is_not_broken(machine: Path) -> None:
    mount = unified(machine, "/")
    group = cgroup.Group(cgroup.Place(2, mount, mount), Limits(memory_bytes=None, processes=None))
    (folder,) = group.folders
    assert list(folder.iterdir()) == []
    (folder / "memory.events").write_text("oom_kill 1\n")
    (folder / "pids.events").write_text("max 1\n")
    assert group.broken() is None


def test_what_can_not_be_limited_is_not_left_behind(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = unified(machine, "/")

    def refused(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(cgroup, "_write", refused)
    with pytest.raises(OSError, match="no room"):
        cgroup.Group(cgroup.Place(2, mount, mount), Limits(memory_bytes=MB))
    assert list(mount.iterdir()) == []


def test_what_still_runs_in_a_killed_graders_group_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is left when somebody kills the grader and the supervisor too."""
    place = cgroup._found()
    if isinstance(place, str):
        pytest.skip(place)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 2**22 + 1)
        group = cgroup.Group(place, Limits())
    with subprocess.Popen(["/bin/sleep", "1000"]) as left:
        for folder in group.folders:
            (folder / "cgroup.procs").write_text(str(left.pid))
        cgroup._sweep(place)
        assert left.wait(10) == -signal.SIGKILL
    cgroup._sweep(place)
    assert not any(folder.exists() for folder in group.folders)


def test_groups_of_killed_graders_are_swept(machine: Path) -> None:
    mount = unified(machine, "/")
    gone, here = 2**22 + 1, 1  # above the kernel's highest process id; the first process
    ours = f"harness-{os.stat('/proc/self/ns/pid').st_ino}"
    kept = [f"{ours}-{here}-abc", f"{ours}-x-abc", f"harness-1-{gone}-abc", f"other-{gone}-abc"]
    for name in (f"{ours}-{gone}-abc", *kept):
        (mount / name).mkdir()
    cgroup._sweep(cgroup.Place(2, mount, mount))
    assert sorted(each.name for each in mount.iterdir()) == sorted(kept)
