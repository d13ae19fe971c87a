"""A data folder is one server's at a time: a lock on a file in it, which the kernel releases when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

_FILE = "serve.lock"
_HELD = re.compile(rb"([0-9a-f]{16})(?: ([0-9]{1,10}))?")


class Held(Exception):
    """Another server has the folder, or it can't be locked. The message is one plain sentence."""


@contextlib.contextmanager
def held(data: Path) -> Iterator[str]:
    """Hold a folder, which is made where there is none; gives its name, which stays the same from start to start.

    Raises Held.
    """
    path = data / _FILE
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Not inherited: an agent that outlives its server for a moment holds nothing.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Held(f"the data folder {data} can't be used: {error.strerror or error}.") from None
    try:
        told = _HELD.fullmatch(os.pread(file, 64, 0))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = f" (process {told[2].decode()})" if told and told[2] else ""
            raise Held(
                f"another harness serve{who} has the data folder {data}: stop that one, or give this one a folder of "
                "its own with --data."
            ) from None
        except OSError as error:
            raise Held(f"the data folder {data} can't be locked: {error.strerror or error}.") from None
        name = told[1].decode() if told else secrets.token_hex(8)
        _write(file, f"{name} {os.getpid()}")
        try:
            yield name
        finally:
            _write(file, name)
    finally:
        os.close(file)


def _write(file: int, text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: the lock is what counts
        os.pwrite(file, text.encode(), 0)
        os.ftruncate(file, len(text))
