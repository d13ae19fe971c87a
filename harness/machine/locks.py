"""One grading at a time on a device: a lock that holds between processes and goes with its holder.

A file for each device in a directory that processes (and containers that mount it) share, locked with flock: when the
holder dies, however it dies, the kernel releases it. What stands in the file tells those who wait whom they wait for,
and nothing else; only the lock counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_LOOK_AGAIN_S = 0.1
_HOLDER_BYTES = 4096
_COMMAND_CHARACTERS = 200


class DeviceBusy(Exception):
    """Somebody else holds the device, and waiting was not wanted. The message says who."""


@dataclass(frozen=True)
class Holder:
    """Who holds a device, in its own words."""

    pid: int
    host: str
    """A container has a name, and process numbers, of its own."""
    command: str
    since: float
    """Seconds since 1970."""

    def __str__(self) -> str:
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        clock = time.strftime("%H:%M:%S", time.localtime(self.since))
        return f"process {self.pid}{where}, since {clock}: {self.command}"


def lock_directory() -> Path:
    """Where the locks are: HARNESS_LOCK_DIR, or a folder in the system's temporary folder that all users may use."""
    chosen = os.environ.get("HARNESS_LOCK_DIR")
    directory = Path(chosen) if chosen else Path(tempfile.gettempdir()) / "harness-locks"
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):
        directory.chmod(0o1777)
    return directory


def file_name(device: str) -> str:
    """A device's UUID as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", device)


def open_shared(path: Path) -> int:
    """A descriptor of a file that every user may lock; made, for all to write, when it isn't there."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            # Without O_CREAT first: Linux refuses it for another user's file in a folder that all may write to.
            return os.open(path, flags)
        except PermissionError:
            # Made by somebody who kept it to himself: to lock it, reading is enough.
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
                # Whatever the umask says: others have to lock it too.
                os.fchmod(fd, 0o666)
                return fd


class DeviceLock:
    """The right to use a device. `held` takes it, `paused` lends it to others for a while."""

    def __init__(self, name: str, on_wait: Callable[[], None] = lambda: None, *, wait: bool = True) -> None:
        """`name` is the device's UUID or `cpu`; `on_wait` is called once for each other holder that is waited for.

        Without `wait`, `held` raises DeviceBusy when somebody else holds it.
        """
        self._name = name
        self._path = lock_directory() / f"{file_name(name)}.lock"
        self._on_wait = on_wait
        self._wait = wait
        self._fd: int | None = None

    def holder(self) -> Holder | None:
        """Who holds it, as far as the file tells; of interest while waiting."""
        try:
            with self._path.open("rb") as file:
                found: Any = json.loads(file.read(_HOLDER_BYTES))
            # Anybody may write there: numbers and printable text are all that is taken from it.
            return Holder(
                pid=int(found["pid"]),
                host=_printable(str(found["host"])),
                command=_printable(str(found["command"])),
                since=min(max(0.0, float(found["since"])), 1e11),
            )
        except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
            return None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until the device is free and hold it; DeviceBusy instead of waiting where that was asked for."""
        self._take(self._wait)
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let others have the device meanwhile, if it is held. Getting it back is waited for in any case."""
        if self._fd is None:
            yield
            return
        self._release()
        try:
            yield
        finally:
            self._take(wait=True)

    def _take(self, wait: bool) -> None:
        fd = open_shared(self._path)
        waits_for: list[Holder | None] = []
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    holder = self.holder()
                    if not wait:
                        who = f" ({holder})" if holder else ""
                        raise DeviceBusy(
                            f"Another grading has {self._name}{who}; wait for it, or leave --no-wait out."
                        ) from None
                    # Between taking the lock and writing its name a holder is unknown: that is not another one.
                    if not waits_for or (holder is not None and holder not in waits_for):
                        waits_for.append(holder)
                        self._on_wait()
                    time.sleep(_LOOK_AGAIN_S)
            _write_holder(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def _release(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def _write_holder(fd: int) -> None:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else ""
    holder = Holder(os.getpid(), socket.gethostname(), command[:_COMMAND_CHARACTERS], time.time())
    with contextlib.suppress(OSError):  # a full disk is no reason not to grade
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(asdict(holder)).encode(), 0)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)[:_COMMAND_CHARACTERS]
