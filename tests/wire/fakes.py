"""A worker that is no process: a thread on the other end of the socket, which answers as it is told to."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from harness.sandbox import Command, Exit, Limits, Sandbox, Sandboxed
from harness.wire.frames import Channel, WireError

Behaviour = Callable[[socket.socket], None]


class _Thread(Sandboxed):
    def __init__(self, sock: socket.socket, behave: Behaviour) -> None:
        self._socket = sock
        self._thread = threading.Thread(target=self._run, args=(behave,), daemon=True)
        self._thread.start()

    def _run(self, behave: Behaviour) -> None:
        try:
            with contextlib.suppress(OSError, WireError):
                behave(self._socket)
        finally:
            self._socket.close()

    @property
    def pid(self) -> int:
        return os.getpid()

    def pids(self) -> list[int]:
        return []

    def poll(self) -> Exit | None:
        return None if self._thread.is_alive() else Exit(code=0, signal=None, limit=None)

    def wait(self, timeout: float | None = None) -> Exit:
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError
        return Exit(code=0, signal=None, limit=None)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> Exit:
        self.end()
        return self.wait(10)

    def stop(self) -> None:
        """A thread can't be stopped."""

    def go_on(self) -> None:
        """So there is nothing to do here."""

    def output(self) -> str:
        return ""


class ScriptedSandbox(Sandbox):
    """Instead of starting a command, runs `behave` on the command's end of the wire."""

    name = "scripted"

    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        (fd,) = command.pass_fds
        return _Thread(socket.socket(fileno=os.dup(fd)), self._behave)


def answering(answer: Callable[[dict[str, Any], Channel], dict[str, Any] | bytes | None]) -> Behaviour:
    """A behaviour that says hello and then answers each order; bytes go out as they are, None closes."""
    import torch

    def behave(sock: socket.socket) -> None:
        channel = Channel(sock)
        channel.send({"type": "hello", "protocol": 1, "torch": torch.__version__, "python": "3"})
        while True:
            order = channel.receive(take_fds=True)
            said = answer(order, channel)
            for fd in channel.take_descriptors():
                os.close(fd)
            if said is None:
                return
            if isinstance(said, bytes):
                sock.sendall(said)
            else:
                channel.send({"ticket": order["ticket"], **said})

    return behave
