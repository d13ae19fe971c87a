"""The grader's own clock: a small process that has nothing else to do.

    grader --frame--> stopwatch --frame--> worker
           <--wall, answer--   <--answer--

The grader's process has threads that watch and read, and each of them may hold it up for a millisecond just when an
answer comes. This one only sends a frame on the worker's socket, waits for a whole frame to come back, and says how
long that took. It does not look into either. Run as a script it is that process; nothing but the standard library is
needed, so that it is up in a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable

_HEADER = 4
"""Bytes of a frame that say how long the rest is; as in wire.py."""
_REQUEST = struct.Struct("!d?II")
"""Seconds at most, whether to wait busily, the longest answer, length of the frame to send."""
_ANSWER = struct.Struct("!ddI")
"""When the frame was sent and when the answer was there (time.perf_counter of this machine), length of the answer."""
_LOOK_EVERY = 4096
"""Turns of a busy wait between looks at the time."""
_LOOK_UP_S = 0.2


class Stopwatch:
    """Times exchanges on a worker's socket. To be closed."""

    def __init__(self, wire_fd: int) -> None:
        ours, theirs = socket.socketpair()
        self._control = ours
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(theirs.fileno()), str(wire_fd)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), wire_fd),
                env={},
            )
        finally:
            theirs.close()

    def exchange(
        self, frame: bytes, *, limit_s: float, longest: int, spin: bool, gone: Callable[[], bool]
    ) -> tuple[float, float, bytes]:
        """Send a frame and wait for the answer: when it was sent, when the answer was there, and the answer.

        The times are those of time.perf_counter. The answer may be incomplete: what came until `limit_s` seconds were
        over, the other side had closed, or `gone` said that it has ended. `longest` is the most bytes that are waited
        for.
        """
        began = time.perf_counter()
        self._control.sendall(_REQUEST.pack(limit_s, spin, longest, len(frame)) + frame)
        ended = False
        while not select.select([self._control], [], [], _LOOK_UP_S)[0]:
            if ended:
                return began, time.perf_counter(), b""
            ended = gone()
        sent, came, size = _ANSWER.unpack(_all_of(self._control, _ANSWER.size))
        return sent, came, _all_of(self._control, size)

    def close(self) -> None:
        """End it, whatever it waits for."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _all_of(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ConnectionError("the stopwatch has ended")
        data += piece
    return data


def _serve(control: socket.socket, wire: socket.socket) -> None:
    """Answer requests until the grader is gone."""
    while True:
        limit_s, spin, longest, size = _REQUEST.unpack(_all_of(control, _REQUEST.size))
        frame = memoryview(_all_of(control, size))
        answer = bytearray()
        wanted = _HEADER
        looks = 0
        sent = came = time.perf_counter()
        with contextlib.suppress(OSError):
            while frame:
                frame = frame[wire.send(frame) :]
            while len(answer) < wanted:
                try:
                    piece = wire.recv(1 << 16, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    looks += 1
                    if not spin:
                        select.select([wire], [], [], max(0.0, sent + limit_s - time.perf_counter()))
                    if (not spin or looks % _LOOK_EVERY == 0) and time.perf_counter() > sent + limit_s:
                        break
                    continue
                came = time.perf_counter()
                if not piece:
                    break
                answer += piece
                if len(answer) >= _HEADER:
                    wanted = min(_HEADER + int.from_bytes(answer[:_HEADER], "big"), longest)
        control.sendall(_ANSWER.pack(sent, came, len(answer)) + answer)


if __name__ == "__main__":
    with contextlib.suppress(OSError, KeyboardInterrupt):
        _serve(socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])))
    os._exit(0)
