"""Who holds a device, who is told, and what happens to those who don't want to wait."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.machine.locks import DeviceBusy, DeviceLock, Holder

HOLD = """
import sys
from harness.machine.locks import DeviceLock
with DeviceLock("GPU-test").held():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path))
    return tmp_path


@contextmanager
def held_elsewhere() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", HOLD, "problem", "two words.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder
        holder.kill()


def test_who_does_not_want_to_wait_is_told_who_has_it() -> None:
    with held_elsewhere() as holder, pytest.raises(DeviceBusy) as caught, DeviceLock("GPU-test", wait=False).held():
        pass
    assert f"process {holder.pid}, since " in str(caught.value)
    assert "-c problem 'two words.py'" in str(caught.value)


def test_a_free_device_is_taken_without_waiting() -> None:
    with (
        DeviceLock("GPU-test", wait=False).held(),
        pytest.raises(DeviceBusy),
        DeviceLock("GPU-test", wait=False).held(),
    ):
        pass
    with DeviceLock("GPU-test", wait=False).held():
        pass


def test_who_waits_can_see_for_whom() -> None:
    seen: list[Holder | None] = []
    with held_elsewhere() as holder:

        def look() -> None:
            seen.append(lock.holder())
            holder.kill()

        lock = DeviceLock("GPU-test", look)
        with lock.held():
            assert seen
            assert seen[0] is not None
            assert seen[0].pid == holder.pid
            mine = lock.holder()
            assert mine is not None
            assert mine.pid == os.getpid()
    assert lock.holder() is None


def test_a_lent_device_is_waited_for_even_by_those_who_do_not_wait(directory: Path) -> None:
    waited: list[int] = []
    lock = DeviceLock("GPU-test", lambda: waited.append(1), wait=False)
    other = DeviceLock("GPU-test")

    with lock.held():
        borrowing = other.held()

        def give_back() -> None:
            waited.append(1)
            borrowing.__exit__(None, None, None)

        lock._on_wait = give_back
        with lock.paused():
            borrowing.__enter__()
    assert waited == [1]


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"no json",
        b"[1]",
        b'{"pid": 1}',
        b"\xff\xfe",
        b'{"pid": "x", "host": "", "command": "", "since": 0}',
        b"[" * 4000,
    ],
)
def test_nonsense_in_the_file_is_nobody(directory: Path, written: bytes) -> None:
    (directory / "GPU-test.lock").write_bytes(written)
    assert DeviceLock("GPU-test").holder() is None
    with DeviceLock("GPU-test", wait=False).held():
        pass


def test_what_a_stranger_wrote_cannot_paint_the_terminal(directory: Path) -> None:
    forged = {"pid": 1, "host": "h\x1b[2J", "command": "\x1b]0;x\x07\n" + "y" * 1000, "since": 1e300}
    (directory / "GPU-test.lock").write_text(json.dumps(forged))
    holder = DeviceLock("GPU-test").holder()
    assert holder is not None
    assert str(holder).isprintable()
    assert len(str(holder)) < 500


def test_others_may_lock_it_whatever_the_umask_says(directory: Path) -> None:
    before = os.umask(0o077)
    try:
        with DeviceLock("GPU-test").held():
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((directory / "GPU-test.lock").stat().st_mode) == 0o666


def test_a_file_that_may_only_be_read_locks_all_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DeviceLock("GPU-test").held():
        pass
    really_open = os.open

    def refusing(path: Path, flags: int, *more: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(path)
        return really_open(path, flags, *more)

    monkeypatch.setattr(os, "open", refusing)
    with DeviceLock("GPU-test").held(), pytest.raises(DeviceBusy), DeviceLock("GPU-test", wait=False).held():
        pass


def test_a_link_in_a_shared_folder_is_not_followed(directory: Path) -> None:
    (directory / "precious").write_text("kept")
    (directory / "GPU-test.lock").symlink_to(directory / "precious")
    with pytest.raises(OSError, match="Too many levels"), DeviceLock("GPU-test").held():
        pass
    assert (directory / "precious").read_text() == "kept"


def test_a_lock_goes_with_its_holder() -> None:
    with held_elsewhere() as holder:
        waited: list[int] = []

        def end_the_holder() -> None:
            waited.append(1)
            holder.kill()

        with DeviceLock("GPU-test", end_the_holder).held():
            assert waited == [1]


def test_a_paused_lock_is_free_meanwhile() -> None:
    waited: list[int] = []
    one, other = DeviceLock("x"), DeviceLock("x", lambda: waited.append(1))
    with one.held(), one.paused(), other.held():
        pass
    with one.paused():
        pass
    assert not waited
