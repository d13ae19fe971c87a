"""Who holds a context on a device and has nothing to do there: prepared workers, and graders that wait for work.

A grading looks at who else has its device open. A prepared worker of another grader has, and does nothing; so each is
on a list, from when its context was made until it is about to see a submission. An entry is a file beside the device's
lock, in a folder that no sandboxed process sees:

    DEVICE.PID.idle    {"tasks": [[pid, start time], ...]}, locked by the grader that it belongs to

It counts while that lock is held, so it goes with its grader, and only if root or our own user wrote it. A number is
taken together with the time at which its process started: it can't be passed on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from harness.machine.locks import file_name, lock_directory

_MAX_BYTES = 64 << 10


class Entry:
    """Some processes on the list, until it is closed."""

    def __init__(self, device: str, pids: Iterable[int]) -> None:
        """`device` as for its lock. What can't be written is not on the list; that is no error."""
        self.path = lock_directory() / f"{file_name(device)}.{os.getpid()}-{secrets.token_hex(8)}.idle"
        self._fd: int | None = None
        tasks = [(pid, began) for pid in pids if (began := _start_time(pid)) is not None]
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            # Locked before it has its name: an entry without a lock is of somebody who has died.
            staged = self.path.with_suffix(".new")
            self._fd = os.open(staged, flags, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            os.write(self._fd, json.dumps({"tasks": tasks}).encode())
            staged.rename(self.path)

    def close(self) -> None:
        """Take them off it."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._fd)
        self._fd = None


def idle(device: str) -> set[int]:
    """Process numbers on the list of a device. Entries of graders that have died are removed."""
    found: set[int] = set()
    for path in lock_directory().glob(f"{file_name(device)}.*.idle"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            found |= _tasks_of(path)
    return found


def _tasks_of(path: Path) -> set[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        state = os.fstat(fd)
        if state.st_uid not in (0, os.geteuid()) or not stat.S_ISREG(state.st_mode):
            return set()
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            tasks = json.loads(os.read(fd, _MAX_BYTES) or b'{"tasks": []}')["tasks"]
            return {int(pid) for pid, began in tasks if _start_time(int(pid)) == began}
        path.unlink()
        return set()
    finally:
        os.close(fd)


def _start_time(pid: int) -> int | None:
    """Ticks from the machine's start to the process's: field 22 of /proc/PID/stat (proc(5)). None: it is not there."""
    with contextlib.suppress(OSError, ValueError, LookupError):
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    return None
