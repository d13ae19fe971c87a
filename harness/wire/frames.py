"""How grader and worker talk: frames of JSON over a socket, with tensor bytes beside them in shared memory.

    frame:  4 bytes length, big-endian | that many bytes of JSON, one object with a "type"

The grader asks, the worker answers; only a build request comes unasked, from within an answer still owed. Descriptors
travel from the grader to the worker only: whatever a worker attaches is closed by the kernel, since nobody asks for it.
Nothing here is ever unpickled. This module is used on both sides and knows only the standard library.
"""

from __future__ import annotations

import array
import json
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

PROTOCOL = 1
"""Both sides must be of one version; the worker says its own in `hello`."""

MAX_FRAME = 8 << 20
"""Bytes of JSON in one frame. Generous: a submission's source is at most 1 MiB, a build request a few of them."""

_HEADER = 4
_LOOK_UP_S = 0.2


class WireError(Exception):
    """The other side broke the protocol: an oversized, malformed or unexpected frame."""


class Closed(WireError):
    """The other side is gone."""


class Late(WireError):
    """The other side did not answer in time."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class Channel:
    """One end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end; the other end reads Closed."""
        self._socket.close()

    def send(self, message: dict[str, Any], fds: Sequence[int] = (), *, timeout: float | None = None) -> None:
        """Send one message; `fds` arrive at the other side as descriptors of its own.

        Raises Closed when the other side is gone, Late when it has not read for `timeout` seconds.
        """
        body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(body) > MAX_FRAME:
            raise WireError(f"a message of {len(body)} bytes is larger than the {MAX_FRAME} that a frame may hold")
        frame = memoryview(len(body).to_bytes(_HEADER, "big") + body)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._socket.settimeout(timeout)
            if fds:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                frame = frame[self._socket.sendmsg([frame], rights) :]
            while frame:
                if deadline is not None:
                    self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                frame = frame[self._socket.send(frame) :]
        except TimeoutError as error:
            raise Late("the other side does not read") from error
        except OSError as error:
            raise Closed(f"the other side is gone: {error}") from error

    def receive(
        self, *, deadline: float | None = None, gone: Callable[[], bool] | None = None, take_fds: bool = False
    ) -> dict[str, Any]:
        """The next message.

        `deadline` is a time of time.monotonic(). `gone` says whether the other side has ended although its socket is
        still open (a child of it may hold it). Raises Closed, Late, or WireError for a frame that is no message.
        """
        size = int.from_bytes(self._take(_HEADER, deadline, gone, take_fds), "big")
        if size > MAX_FRAME:
            raise WireError(f"a frame announces {size} bytes; {MAX_FRAME} are allowed")
        body = self._take(size, deadline, gone, take_fds)
        try:
            message = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise WireError(f"a frame of {size} bytes is not JSON: {error}") from error
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise WireError("a frame holds JSON that is no object with a type")
        return message

    def take_descriptors(self) -> list[int]:
        """The descriptors that came with the messages since the last call."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def _take(self, count: int, deadline: float | None, gone: Callable[[], bool] | None, take_fds: bool) -> bytes:
        ended = False
        while len(self._buffer) < count:
            wait = None if gone is None else _LOOK_UP_S
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Late("no answer in time")
                wait = left if wait is None else min(wait, left)
            try:
                ready = select.select([self._socket], [], [], 0 if ended else wait)[0]
                if not ready:
                    if ended:
                        raise Closed("the other side has ended")
                    # Look once more after the end is known: its last words may have just arrived.
                    ended = gone is not None and gone()
                    continue
                data = self._read(take_fds)
            except OSError as error:
                raise Closed(f"the other side is gone: {error}") from error
            if not data:
                raise Closed("the other side has closed the connection")
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _read(self, take_fds: bool) -> bytes:
        if not take_fds:
            return self._socket.recv(1 << 16)
        room = socket.CMSG_SPACE(16 * array.array("i").itemsize)
        data, ancillary, _, _ = self._socket.recvmsg(1 << 16, room)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._descriptors += fds
        return data
