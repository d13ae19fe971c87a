"""How many compilers run at once on this machine, over all graders together."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MEMORY_PER_COMPILER = 3 << 30
"""Bytes that one nvcc run over torch's full headers takes (measured: 2.8 to 3.1 GB)."""


def default_jobs() -> int:
    """Compilers at once: as many as cores, and as memory holds."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, int(psutil.virtual_memory().total // MEMORY_PER_COMPILER)))


class Meter:
    """How long at least one of a build's compilers has run: what the build waits for others is none of its time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of those that have ended."""
        self._changing = threading.Lock()
        self._running, self._since = 0, 0.0

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Around one compiler; several may overlap."""
        with self._changing:
            if not self._running:
                self._since = time.monotonic()
            self._running += 1
        try:
            yield
        finally:
            with self._changing:
                self._running -= 1
                if not self._running:
                    self.seconds += time.monotonic() - self._since


class Slots:
    """Machine-wide slots for compilers, as locked files: a process that dies gives its slots back.

    Whoever waits stands in a line, which is a lock that the kernel hands out in the order of asking, and of each Slots
    one stands there at a time: a build of many files can't keep its neighbours waiting for all of them.
    """

    def __init__(self, folder: Path, count: int | None = None) -> None:
        self.folder = folder
        self.count = count or default_jobs()
        self._ours = threading.Lock()
        """Held by the one of ours who stands in the line."""

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a free slot and hold it."""
        with self._ours, self._first_in_line():
            while (descriptor := self._try()) is None:
                time.sleep(0.05)
        try:
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _first_in_line(self) -> Iterator[None]:
        # A line for each number of slots: who may use few waits for one of those, and others need not wait with him.
        descriptor = os.open(self.folder / f"line-{self.count}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _try(self) -> int | None:
        for index in range(self.count):
            descriptor = os.open(self.folder / f"{index}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            return descriptor
        return None
