"""Folders that a stranger has filled: walked, measured and removed whatever their shape.

Nothing here recurses, builds a path longer than a name, or holds more than two descriptors, so depth is no matter; and
no symbolic link is followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

ENTRY_BYTES = 4096
"""What a file or folder costs at least: an empty one takes an inode and a name, and there are only so many."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 5

What = Literal["file", "enter", "leave"]


def folder_use(folder: Path, at_most: int | None = None) -> int:
    """Bytes that everything below `folder` takes, itself included; counting stops past `at_most`.

    Raises OSError when what is below can't be looked at, also after several attempts: somebody keeps it from us.
    """
    for attempt in range(_ATTEMPTS):
        total = ENTRY_BYTES
        try:
            for what, _, _, state in walk(folder, need=stat.S_IRUSR | stat.S_IXUSR):
                if what != "leave":
                    total += max(ENTRY_BYTES, state.st_blocks * 512)
                if at_most is not None and total > at_most:
                    break
            return total
        except OSError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def remove_folder(folder: Path, within_s: float) -> None:
    """Remove `folder` and everything below. Raises OSError when something can't be removed, TimeoutError when it
    takes longer than `within_s`; what is left can be removed by another call."""
    deadline = time.monotonic() + within_s
    for attempt in range(_ATTEMPTS):
        try:
            for what, parent, name, _ in walk(folder, need=stat.S_IRWXU):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{folder} holds too much to be removed in {within_s} s")
                if what == "file":
                    os.unlink(name, dir_fd=parent)
                elif what == "leave":
                    os.rmdir(name, dir_fd=parent)
            os.rmdir(folder)
            return
        except FileNotFoundError:
            if not os.path.lexists(folder):
                return
        except TimeoutError:
            raise
        except OSError:
            # Some file systems leave names out of a listing while others are being removed: look again.
            if attempt == _ATTEMPTS - 1:
                raise


def walk(folder: Path, need: int) -> Iterator[tuple[What, int, str, os.stat_result]]:
    """Everything below `folder`: what it is, a descriptor of the folder it is in, its name there, its lstat.

    A folder comes twice, before and after what is in it. Folders whose owner lacks a permission of `need` are given it.
    Raises OSError when a folder was moved while the walk was inside.
    """
    here = _open_folder(str(folder), None, need)
    above: list[tuple[str, os.stat_result, tuple[int, int], list[tuple[str, os.stat_result]]]] = []
    waiting: list[tuple[str, os.stat_result]] = []
    try:
        yield from _list(here, waiting)
        while waiting or above:
            if waiting:
                name, state = waiting.pop()
                yield "enter", here, name, state
                try:
                    below = _open_folder(name, here, need)
                except (FileNotFoundError, NotADirectoryError):
                    continue  # it has gone meanwhile, or is something else now
                above.append((name, state, _identity(here), waiting))
                os.close(here)
                here, waiting = below, []
                yield from _list(here, waiting)
            else:
                name, state, expected, waiting = above.pop()
                parent = os.open("..", _FOLDER, dir_fd=here)
                os.close(here)
                here = parent
                if _identity(here) != expected:
                    raise OSError(f"the folder {name!r} below {folder} was moved away")
                yield "leave", here, name, state
    finally:
        os.close(here)


def _list(here: int, folders: list[tuple[str, os.stat_result]]) -> Iterator[tuple[What, int, str, os.stat_result]]:
    with os.scandir(here) as entries:
        for entry in entries:
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(state.st_mode):
                folders.append((entry.name, state))
            else:
                yield "file", here, entry.name, state


def _open_folder(name: str, parent: int | None, need: int) -> int:
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(PermissionError):
            opened = os.open(name, _FOLDER, dir_fd=parent)
            try:
                mode = os.fstat(opened).st_mode
                if mode & need != need:
                    os.fchmod(opened, stat.S_IMODE(mode) | need)
            except BaseException:
                os.close(opened)
                raise
            return opened
        # Not to be opened as it is. Through a handle, since a name could have become a link to elsewhere by now.
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(os.fstat(handle).st_mode) | need)
        finally:
            os.close(handle)
    raise PermissionError(f"the folder {name!r} can't be opened")


def _identity(folder: int) -> tuple[int, int]:
    state = os.fstat(folder)
    return state.st_dev, state.st_ino
