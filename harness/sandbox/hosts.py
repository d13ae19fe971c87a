"""Where a supervisor runs, and the grader's ends of what leads to it: a process beside the grader, or a container."""

from __future__ import annotations

import abc
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from harness.sandbox.base import Limit, SandboxError
from harness.sandbox.cgroup import Group
from harness.sandbox.scratch import Scratch
from harness.sandbox.supervisor import descendants

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Host(abc.ABC):
    """A started supervisor that waits for its order."""

    control: socket.socket
    """Orders go in, answers come out; closed, it is the order to end everything."""
    output: int
    """Descriptor from which the command's stdout and stderr are read."""
    root: int
    """Process id, as the grader sees it, of the supervisor: everything below it is the command's."""

    def outside(self, pid: int) -> int:
        """A process id of the supervisor's, as the grader sees it."""
        return pid

    def pids(self) -> list[int]:
        """Process ids, as the grader sees them, of everything below the supervisor."""
        return descendants(self.root)

    @property
    def fenced(self) -> bool:
        """Whether the kernel holds memory and number of processes within limits by itself."""
        return False

    def end(self) -> None:
        """Order everything to end: the same as what a grader that dies leaves behind. Does not wait."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)

    @abc.abstractmethod
    def broken(self) -> tuple[Limit, float, float] | None:
        """The limit at which the kernel held the command up, its value and the use, or None; asked before `wait`."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Wait until the supervisor and everything below it is gone. `control` is closed by then."""


class LocalHost(Host):
    """A supervisor beside the grader, as the grader's own child."""

    def __init__(self, scratch: Scratch, pass_fds: tuple[int, ...], group: Group | None) -> None:
        """Raises SandboxError."""
        self._group = group
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # The lock stays with the supervisor: nobody sweeps the folder while it still ends what writes there.
                pass_fds=(theirs.fileno(), scratch.lock, *pass_fds),
                start_new_session=True,
                env={},
            )
        except OSError as error:
            ours.close()
            raise SandboxError(f"could not start the supervisor of a sandboxed process: {error}") from error
        finally:
            theirs.close()
        assert self._process.stdout is not None
        self.control, self.root = ours, self._process.pid
        self.output = os.dup(self._process.stdout.fileno())
        self._process.stdout.close()

    def pids(self) -> list[int]:
        found = None if self._group is None else self._group.pids()
        # The kernel's own list is read at once; without it all of /proc has to be gone through.
        return super().pids() if found is None else [pid for pid in found if pid != self.root]

    @property
    def fenced(self) -> bool:
        return self._group is not None

    def broken(self) -> tuple[Limit, float, float] | None:
        return self._group.broken() if self._group else None

    def wait(self) -> None:
        self._process.wait()
        if self._group:
            # The supervisor has done so already, unless somebody has killed it.
            with contextlib.suppress(OSError):
                self._group.remove()
