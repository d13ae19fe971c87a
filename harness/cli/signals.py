"""Ctrl-C, kill and a closed terminal, all as one exception, so that every `finally` of a grading runs.

A grading holds processes, shared memory and a lock on a GPU. Python turns only SIGINT into an exception; SIGTERM and
SIGHUP would end the process on the spot.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Somebody asked this process to end."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.exit_code = 128 + signum


@contextmanager
def raising_stopped() -> Iterator[None]:
    """Inside, the first of those signals raises Stopped; the second is told to wait; the third ends at once.

    The second comes unasked (`timeout` signals a process and then its group; make passes on what the terminal has sent
    already) and must not cut short the cleaning up that the first began.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = 0

    def handle(signum: int, _: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            raise Stopped(signum)
        if seen == 2:
            os.write(2, b"harness: ending what was started; once more to leave at once\n")
        else:
            os._exit(128 + signum)

    # A signal that the caller set to be ignored (nohup, a shell's background job) stays ignored.
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    ours = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in ours:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def exit_code_of(stop: KeyboardInterrupt) -> int:
    """130 for Ctrl-C, 143 for kill."""
    return stop.exit_code if isinstance(stop, Stopped) else 128 + signal.SIGINT


def say(sentence: str) -> None:
    """One line on stderr, in the name of the program."""
    print(f"harness: {sentence}", file=sys.stderr, flush=True)
