"""Scratch folders, walked and removed, and those that nobody removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.sandbox.folders import ENTRY_BYTES, folder_use, remove_folder
from harness.sandbox.scratch import Scratch, sweep

START = (
    "import sys, tempfile; sys.path.insert(0, {root!r}); tempfile.tempdir = {where!r}\n"
    "from harness.sandbox import Command, Limits, PlainSandbox\n"
    "running = PlainSandbox().start(Command(argv=('/bin/sleep', '1000')), Limits())\n"
    "print(running.root, flush=True); sys.stdin.read()\n"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _abandon(scratch: Scratch) -> Path:
    """As a killed grader leaves it: all there, nobody's."""
    (scratch.data / "x").mkdir()
    os.close(scratch.lock)
    return scratch.data.parent


def test_an_abandoned_folder_is_swept_and_one_in_use_is_not(temporary: Path) -> None:
    abandoned, used = _abandon(Scratch()), Scratch()
    sweep(temporary)
    assert list(temporary.iterdir()) == [used.data.parent]
    assert used.data.is_dir()
    assert not abandoned.exists()
    used.remove()
    assert not list(temporary.iterdir())


def test_only_what_is_ours_is_swept(temporary: Path) -> None:
    for name in ("harness-empty", "harness-locks", "harness-other", "elsewhere"):
        (temporary / name / "data").mkdir(parents=True)
    (temporary / "harness-other" / "harness-scratch.lock").write_text("somebody else's")
    abandoned = _abandon(Scratch())
    abandoned.rename(temporary / "renamed")
    (temporary / "harness-link").symlink_to(temporary / "renamed")
    before = sorted(temporary.rglob("*"))
    sweep(temporary)
    assert sorted(temporary.rglob("*")) == before


def test_what_a_killed_grader_left_goes_when_its_supervisor_is_gone(temporary: Path) -> None:
    script = START.format(root=str(Path(__file__).parents[2]), where=str(temporary))
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as grader:
        assert grader.stdout is not None
        supervisor = int(grader.stdout.readline())
        os.kill(supervisor, signal.SIGSTOP)
        try:
            grader.kill()
            grader.wait()
            sweep(temporary)
            assert list(temporary.iterdir()), "swept although the supervisor lives"
        finally:
            gone = os.pidfd_open(supervisor)
            os.kill(supervisor, signal.SIGCONT)
    import select

    assert select.select([gone], [], [], 30)[0]
    os.close(gone)
    sweep(temporary)
    assert not list(temporary.iterdir())


def test_a_start_sweeps(temporary: Path) -> None:
    first = Scratch()
    abandoned = _abandon(Scratch())
    script = START.format(root=str(Path(__file__).parents[2]), where=str(temporary))
    script = script.replace("print(", "import threading; [t.join(30) for t in threading.enumerate() "
                            "if t.name == 'sandbox-sweep']; running.kill(); print(")  # fmt: skip
    subprocess.run([sys.executable, "-c", script], stdin=-3, check=True, stdout=-3, timeout=60)
    assert not abandoned.exists()
    first.remove()
    assert not list(temporary.iterdir())


def _as_somebody(work: object) -> int:
    """Run in a process without root's rights, which folders without permissions don't hold up."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(54321, 54321, 54321)
                os.setresuid(54321, 54321, 54321)
            code = 0 if work() else 2  # type: ignore[operator]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_closed_folders_are_measured_and_removed(temporary: Path) -> None:
    for parent in (temporary, *temporary.parents):
        if not os.stat(parent).st_mode & 0o001:
            os.chmod(parent, 0o711) if parent.is_relative_to("/tmp") else pytest.skip("others can't get there")
    place = temporary / "open"
    place.mkdir()
    place.chmod(0o777)

    def work() -> bool:
        folder = place / "f"
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "file").write_bytes(b"x" * 100_000)
        for path in (folder / "a" / "b", folder / "a", folder):
            path.chmod(0)
        used = folder_use(folder)
        for path in (folder / "a" / "b", folder / "a"):
            path.chmod(0)
        remove_folder(folder, 30)
        return used > 100_000 and not folder.exists()

    assert _as_somebody(work) == 0


def test_links_are_not_followed(temporary: Path) -> None:
    outside = temporary / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"x" * 1_000_000)
    folder = temporary / "folder"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "link").symlink_to(outside)
    (folder / "up").symlink_to("..")
    assert folder_use(folder) <= 4 * ENTRY_BYTES
    remove_folder(folder, 30)
    assert not folder.exists()
    assert (outside / "kept").exists()


def test_a_removal_that_takes_too_long_says_so(temporary: Path) -> None:
    (temporary / "folder" / "a").mkdir(parents=True)
    with pytest.raises(TimeoutError):
        remove_folder(temporary / "folder", -1)
    remove_folder(temporary / "folder", 30)
