"""A sandbox whose workers are ready at once: they speak as a worker does and import no torch.

As a script: a pool in a process that a test kills: python prepared_fakes.py
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import torch

import harness
from harness.machine.device import open_device
from harness.sandbox import Command, Limits, PlainSandbox, Sandboxed, SandboxError
from harness.workers.prepared import PreparedWorkers
from harness.workers.process import Terms

_FOLDER = str(Path(harness.__file__).parent.parent)
_SPEAKS = """
import os, socket, sys
sys.path.insert(0, {folder!r})
from harness.wire.frames import PROTOCOL, Channel
channel = Channel(socket.socket(fileno={fd}))
if os.fork() == 0:
    import time
    time.sleep(600)  # what it starts has to end with it
if {slow!r}:
    import time
    time.sleep(60)
channel.send({{"type": "hello", "protocol": PROTOCOL, "torch": {torch!r}, "python": "3"}})
while True:
    order = channel.receive(take_fds=True)
    if order["type"] == "look" and {lost!r} or order["type"] == "touch" and {untouchable!r}:
        channel.send({{"type": "failed", "ticket": order["ticket"], "category": "cuda", "message": "context lost",
                      "error": "", "traceback": "", "evidence": {{}}}})
        continue
    channel.send({{"type": "done", "ticket": order["ticket"]}})
"""


class QuickSandbox(PlainSandbox):
    """Starts what speaks like a worker."""

    def __init__(self) -> None:
        self.started: list[Sandboxed] = []
        self.limits: list[Limits] = []
        self.broken = False
        """Whether nothing can be started."""
        self.slow = False
        """Whether a worker needs a minute before it says that it is there."""
        self.lost = False
        """Whether contexts are lost by the time that somebody looks."""
        self.untouchable = False
        """Whether a context can't be made ahead."""

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        if self.broken:
            raise SandboxError("there is no room")
        (fd,) = command.pass_fds
        script = _SPEAKS.format(
            folder=_FOLDER,
            fd=fd,
            torch=torch.__version__,
            lost=self.lost,
            slow=self.slow,
            untouchable=self.untouchable,
        )
        self.limits.append(limits)
        self.started.append(
            super().start(dataclasses.replace(command, argv=(sys.executable, "-S", "-c", script)), limits)
        )
        return self.started[-1]


def terms(sandbox: PlainSandbox, memory_gb: float | None = None) -> Terms:
    """What a grading on the CPU asks for."""
    return Terms(sandbox, open_device("cpu").place, memory_gb)


def main() -> None:
    """Prepare two, say which processes they are, and wait to be killed."""
    with PreparedWorkers(open_device("cpu"), QuickSandbox()) as pool:
        assert pool.wait(60)
        print(*pool.pids, flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
