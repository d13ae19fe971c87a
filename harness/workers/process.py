"""A worker's process before it has anything to do: sandboxed, importing torch, told nothing yet.

    WorkerProcess --> starts --(hello)--> torch is there --(touch)--> its context on the device is made --(open)-->
    what the grader's clock needs is there as well

Needs no torch itself, so that it can be started while the grader still imports it. What is said to it, and what comes
back, is worker.py; who has some ready before they are needed is prepared.py.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import harness
from harness.machine.idle import Entry
from harness.machine.spare import spare_memory
from harness.sandbox import Command, Exit, Limits, Mount, Sandbox
from harness.sandbox.mounts import python_mounts, torch_folder, worker_environment
from harness.wire.frames import Channel, WireError
from harness.workers import claims

if TYPE_CHECKING:
    from harness.machine.place import Place
    from harness.wire.stopwatch import Stopwatch

_MEMORY_SHARE = 0.8
"""Of the memory that is free at the start, for a submission whose problem sets no limit."""
_MEMORY_NEAR = 0.75
"""Of what a process that is started now would get: the least that one which was started earlier may have."""
_PROCESSES = 1024

_SEEN_BY_WORKERS = ("__init__.py", "wire", "worker")
"""Of this package: nothing of the trusted side."""


@dataclass(frozen=True)
class Terms:
    """What a grading asks of a process. Whatever has equal terms, and nothing else, may stand for one started now."""

    sandbox: Sandbox
    place: Place
    memory_gb: float | None
    """The problem's limit of host memory, 10^9 bytes; None: what the machine can spare."""

    def memory_bytes(self) -> int:
        """The limit of a process that is started now."""
        spare = spare_memory() * _MEMORY_SHARE
        return int(spare if self.memory_gb is None else min(spare, self.memory_gb * 1e9))

    def seen(self) -> tuple[object, ...]:
        """All else that a process is started with: the kind of sandbox, what is visible, the environment."""
        environment = tuple(sorted(worker_environment(self.place).items()))
        return type(self.sandbox), self.place, python_mounts(self.place), environment


@dataclass(frozen=True)
class Wrapper:
    """A program that a worker runs under, such as compute-sanitizer: it gets the worker's command line after its own,
    in the same sandbox, and hands descriptors on."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """For the program and the worker, over what a worker has anyway."""
    mounts: tuple[Mount, ...] = ()
    pass_fds: tuple[int, ...] = ()


_BARE = Wrapper(())


class WorkerProcess:
    """One sandboxed process that waits for orders. To be closed."""

    def __init__(self, terms: Terms, *, memory_bytes: int | None, wrapper: Wrapper = _BARE) -> None:
        """Raises SandboxError."""
        self.started = time.monotonic()
        self.greeting: claims.Hello | None = None
        """What it says when torch is imported, once that was taken in here."""
        self.hello = False
        """Whether it has said so, and torch is the grader's own."""
        self.touched = self.opened = False
        """Whether its context on the device is made, and whether all is there that a clock needs."""
        self.device_bytes = 0
        """Of the device's memory, that it holds while it waits, as far as that is known."""
        self.stopwatch: Stopwatch | None = None
        """The grader's clock for its loops; the page is this process's alone."""
        self.entry: Entry | None = None
        """On the list of those that hold a context and have nothing to do."""
        self.closed = False
        """Whether it was ended: nothing is to be made for it any more."""
        self._memory_gb, self._memory_bytes = terms.memory_gb, memory_bytes
        self._seen = terms.seen()
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        package = Path(harness.__file__).parent
        visible = [package / name for name in _SEEN_BY_WORKERS]
        start = (
            f"import sys; sys.path.insert(0, {str(package.parent)!r}); sys.path.append({torch_folder()!r}); "
            f"from harness.worker.main import main; main({theirs.fileno()})"
        )
        command = Command(
            argv=(*wrapper.argv, sys.executable, "-I", "-B", "-X", "faulthandler", "-c", start),
            env={**worker_environment(terms.place), **wrapper.env},
            mounts=(*python_mounts(terms.place), *(Mount(path) for path in visible), *wrapper.mounts),
            pass_fds=(theirs.fileno(), *wrapper.pass_fds),
            gpus=terms.place.nodes,
        )
        try:
            self.sandboxed = terms.sandbox.start(command, Limits(memory_bytes=memory_bytes, processes=_PROCESSES))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    @classmethod
    def start(cls, terms: Terms) -> WorkerProcess:
        """One on these terms. Raises SandboxError."""
        return cls(terms, memory_bytes=terms.memory_bytes())

    @property
    def has_context(self) -> bool:
        """Whether it has one on the device."""
        return self.touched or self.opened

    def greet(self, within_s: float) -> None:
        """Take in its hello. Raises WireError."""
        claim = self._next_claim(within_s)
        if not isinstance(claim, claims.Hello):
            raise WireError(f"a process began with {claim.type!r}")
        self.greeting = claim

    def touch(self, device: str, within_s: float) -> None:
        """Have it make its context on `device`, as it knows that: the device's lock has to be held. Raises WireError
        where that can't be done, after which it is of no use."""
        ticket = secrets.token_hex(8)
        self.channel.send({"type": "touch", "device": device, "ticket": ticket}, timeout=within_s)
        claim = self._next_claim(within_s)
        if not isinstance(claim, claims.Done) or claim.ticket != ticket:
            raise WireError(f"a context could not be made: {getattr(claim, 'message', claim.type)}")
        self.touched = True

    def _next_claim(self, within_s: float) -> claims.Claim:
        deadline = time.monotonic() + within_s
        return claims.parse(self.channel.receive(deadline=deadline, gone=lambda: not self.alive))

    @property
    def alive(self) -> bool:
        """Whether it is still there."""
        return self.sandboxed.poll() is None

    def fits(self, terms: Terms) -> bool:
        """Whether it can stand for one that is started on these terms now."""
        if self._memory_bytes is None or self._memory_gb != terms.memory_gb or self._seen != terms.seen():
            return False
        # What the machine can spare moves all the time; a limit that it could not keep is none.
        return _MEMORY_NEAR * terms.memory_bytes() <= self._memory_bytes <= spare_memory()

    def is_idle(self, lock_name: str | None) -> None:
        """It is ready and has nothing to do; `lock_name` is that of the device on which it has a context."""
        self.sandboxed.rest(True)
        if lock_name is not None:
            self.entry = Entry(lock_name, self.sandboxed.pids())

    def has_work(self) -> None:
        """To be called before it gets to see anything of a submission: it is idle no more."""
        self.sandboxed.rest(False)
        if self.entry is not None:
            self.entry.close()
            self.entry = None

    def close(self) -> Exit:
        """Destroy it and everything that it started."""
        self.closed = True
        self.has_work()
        if self.stopwatch is not None:
            self.stopwatch.close()
            self.stopwatch = None
        self.channel.close()
        return self.sandboxed.kill()
