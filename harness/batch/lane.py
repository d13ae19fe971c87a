"""A process that does one call after another and imports torch once. It ends with us, and can be ended in a call.

    ours: Lane.call(function, arguments) --pipe--> theirs: function(*arguments) --pipe--> result or exception

Not a pool of the standard library: there one process that dies takes the others' work with it, a call can't be ended,
a process whose parent was killed stays, and the caller's own script is run again in each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE_S = 30.0
"""For a call to clean up after it was told to end: workers are ended, and a supervisor waits for them."""
_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from harness.batch.lane import serve
serve(int(sys.argv[1]))
"""
_CALLS = 200
"""After so many calls a fresh process: what a reference's imports leave behind does not pile up."""


class LaneLost(Exception):
    """The process ended in the middle of a call. The message says how."""


class _Ended(BaseException):
    """In the process: the call is not wanted any more. No Exception, so that no code takes it for an error."""


class Lane:
    """One process at a time, started when it is needed."""

    def __init__(self, calls: int = _CALLS) -> None:
        self._calls_each = calls
        self._calls = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._told = False
        """Whether the process that is there was told to end: it may answer no further call."""
        self._pipe: Connection | None = None
        self._thread = ThreadPoolExecutor(1, "lane")

    @property
    def pid(self) -> int | None:
        """Of the process that is there now."""
        return None if self._process is None else self._process.pid

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Have it called there. Raises what it raises, and LaneLost. Cancelling ends the process."""
        loop = asyncio.get_running_loop()
        unwanted = threading.Event()
        running = loop.run_in_executor(self._thread, self._ask, function, arguments, unwanted)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            unwanted.set()  # first: a process that is only just being started can't be told yet
            self._tell_to_end()
            with contextlib.suppress(Exception):
                await running
            raise

    async def close(self) -> None:
        """End the process."""
        self._tell_to_end()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown()

    def _ask(self, function: Callable[..., T], arguments: tuple[Any, ...], unwanted: threading.Event) -> T:
        """In the lane's thread."""
        gone = self._process is None or self._told or self._process.poll() is not None
        if gone or self._calls >= self._calls_each:
            self._drop()
            self._start()
        if unwanted.is_set():
            self._tell_to_end()
        self._calls += 1
        assert self._pipe is not None
        try:
            self._pipe.send((function, arguments))
            good, result = self._pipe.recv()
        except (OSError, EOFError):
            code = self._drop()
            how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
            raise LaneLost(f"the process that did it ended {how}") from None
        if not good:
            assert isinstance(result, BaseException)
            raise result
        answer: T = result
        return answer

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # A fresh interpreter: a fork of a process with threads, or with a CUDA context, is no good start. In a
            # session of its own: Ctrl-C is for the process that waits for the results, which then tells this one.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._pipe, self._calls, self._told = Connection(ours.detach()), 0, False

    def _tell_to_end(self) -> None:
        process = self._process
        if process is not None:
            self._told = True
            process.terminate()  # does nothing to a process that has ended

    def _drop(self) -> int | None:
        """End the process, wait for it, and forget it; its exit code."""
        self._tell_to_end()
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is None:
            return None
        try:
            return process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            # Last: a process whose pipe is closed goes at once, and leaves the cleaning up to others.
            if pipe is not None:
                pipe.close()


_at_end: list[Callable[[], None]] = []


def at_end(function: Callable[[], None]) -> None:
    """In the process: have this called when it ends in good order."""
    _at_end.append(function)


def serve(descriptor: int) -> None:
    """The process: call after call, until nobody is there to ask, or it is told to end."""
    signal.signal(signal.SIGTERM, _end)
    pipe = Connection(descriptor)
    threading.Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError, _Ended):
        while True:
            function, arguments = pipe.recv()
            pipe.send(_answer(function, arguments))
    for function in _at_end:
        with contextlib.suppress(Exception, _Ended):
            function()
    os._exit(0)  # torch's own ending takes long, and has nothing to tell


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments)
    except Exception as error:  # noqa: BLE001 - it is for whoever called
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - an exception with a constructor of its own
            return False, RuntimeError(f"{type(error).__name__}: {error}")
        return False, error


def _end(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: the cleaning up is not to be cut short
    raise _Ended


def _end_with_parent(descriptor: int) -> None:
    """Ours was killed: nobody waits for the result, and the device is to be free for whoever comes next."""
    watch = select.poll()
    watch.register(descriptor, select.POLLRDHUP)
    watch.poll()
    os._exit(1)
