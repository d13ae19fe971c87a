"""The private writable folder of a sandboxed command, and the ones that killed graders have left behind.

harness-XXXXXXXX/        in the temporary folder; others may enter it and see nothing
  harness-scratch.lock   held (flock) by the grader and the supervisor for as long as one of them lives
  data/                  what the command sees
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import threading
from pathlib import Path

from harness.sandbox.folders import remove_folder

_PREFIX = "harness-"
_LOCK = "harness-scratch.lock"
_MARKER = b"scratch folder of a sandboxed command; removed when nobody holds a lock on this file\n"
_REMOVE_WITHIN_S = 20.0
_swept: set[Path] = set()


class Scratch:
    """One such folder. `lock` is a descriptor: whoever has it open keeps the folder from being swept."""

    def __init__(self) -> None:
        sweep_once()
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # To be entered by a command that runs under another id; what is in it has permissions of its own.
        self._folder.chmod(0o711)
        self.data = self._folder / "data"
        # Its name only once it is locked: a lock file without a holder means a folder that is up for removal.
        unnamed = self._folder / "new"
        self.lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.write(self.lock, _MARKER)
        unnamed.rename(self._folder / _LOCK)
        self.data.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it. Raises OSError when something can't be removed; a later sweep then tries again."""
        try:
            _remove(self._folder)
        finally:
            os.close(self.lock)


def sweep_once() -> None:
    """Start removing what killed graders have left in the temporary folder, once in a process."""
    where = Path(tempfile.gettempdir())
    if where in _swept:
        return
    _swept.add(where)
    if stale := [(folder, lock) for folder in _ours(where) if (lock := _take(folder)) is not None]:
        # Beside the grading, since there may be a lot of it.
        threading.Thread(target=_remove_all, args=(stale,), name="sandbox-sweep", daemon=True).start()


def sweep(where: Path) -> None:
    """Remove the scratch folders in `where` that nobody uses any more."""
    _remove_all([(folder, lock) for folder in _ours(where) if (lock := _take(folder)) is not None])


def _remove_all(stale: list[tuple[Path, int]]) -> None:
    for folder, lock in stale:
        try:
            with contextlib.suppress(OSError):
                _remove(folder)
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    # The lock file last: a removal that is interrupted can be taken up again.
    remove_folder(folder / "data", _REMOVE_WITHIN_S)
    remove_folder(folder, _REMOVE_WITHIN_S)


def _ours(where: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(where) as entries:
        return [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX) and _is_ours(entry)]
    return []


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


def _take(folder: Path) -> int | None:
    """A lock on a folder that nobody uses any more; None for any other folder."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        state = os.fstat(lock)
        if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and os.read(lock, 4096) == _MARKER:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
