"""One grading at a time on a device: a lock that holds between processes and goes with its holder.

A file for each device in a directory that processes (and containers that mount it) share, locked with flock: when the
holder dies, however it dies, the kernel releases it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_LOOK_AGAIN_S = 0.1


def lock_directory() -> Path:
    """Where the locks are: HARNESS_LOCK_DIR, or a folder in the system's temporary folder that all users may use."""
    chosen = os.environ.get("HARNESS_LOCK_DIR")
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / "harness-locks"


class DeviceLock:
    """The right to use a device. `held` takes it, `paused` lends it to others for a while."""

    def __init__(self, name: str, on_wait: Callable[[], None] = lambda: None) -> None:
        """`name` is the device's UUID or `cpu`; `on_wait` is called once when somebody else holds it."""
        directory = lock_directory()
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):
            directory.chmod(0o1777)
        self._path = directory / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.lock"
        self._on_wait = on_wait
        self._fd: int | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until the device is free and hold it."""
        self._take()
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let others have the device meanwhile, if it is held."""
        if self._fd is None:
            yield
            return
        self._release()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        waited = False
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not waited:
                        waited = True
                        self._on_wait()
                    time.sleep(_LOOK_AGAIN_S)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
