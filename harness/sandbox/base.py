"""The one interface behind which every untrusted process runs.

    Command + Limits --Sandbox.start--> Sandboxed --wait/kill--> Exit

A sandbox starts one command with an environment built from nothing, sees to its limits, keeps what it prints (capped),
and ends everything the command started when it is killed or when the grader dies. What the command says about itself
(its exit code, its output) is kept for people to read and decides nothing.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Limit(StrEnum):
    """A limit that a sandboxed command can run into."""

    WALL_TIME = "wall_time"
    CPU_TIME = "cpu_time"
    MEMORY = "memory"
    OUTPUT = "output"
    DISK = "disk"
    PROCESSES = "processes"


@dataclass(frozen=True)
class Limits:
    """What a sandboxed command may use; None leaves that one alone."""

    wall_s: float | None = None
    """Seconds from start to the end of the whole process tree."""
    cpu_s: float | None = None
    """Seconds of processor time of the tree together, ended processes included."""
    memory_bytes: int | None = None
    """Memory of the process tree together, files in memory included, what is shared within the tree counted once."""
    output_bytes: int = 16 << 20
    """Bytes of stdout and stderr together; past it the command is killed."""
    disk_bytes: int | None = 4 << 30
    """Bytes that the private scratch folder may hold, files without a name included; an entry counts at least 4 KiB."""
    processes: int | None = 512
    """Processes and threads of the tree together."""
    file_bytes: int | None = None
    """Bytes of one file (RLIMIT_FSIZE); as much as `disk_bytes` when None."""
    open_files: int | None = 4096
    """Open descriptors of one process (RLIMIT_NOFILE)."""


@dataclass(frozen=True)
class Mount:
    """A file or folder that the command sees at the same path as outside, or at `target`."""

    source: Path
    target: Path | None = None
    writable: bool = False


@dataclass(frozen=True)
class Command:
    """What to run, and the little it may see."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment: nothing is inherited."""
    mounts: tuple[Mount, ...] = ()
    """What is visible besides the system's own libraries and tools."""
    pass_fds: tuple[int, ...] = ()
    """Descriptors that the command inherits, under the same numbers."""
    cwd: Path | None = None
    """A visible folder to start in; the private scratch folder when None."""
    gpus: tuple[str, ...] = ()
    """Device nodes (/dev/nvidia0, ...) that the command may open; empty means that it sees no GPU at all."""


@dataclass(frozen=True)
class Exit:
    """How a command ended."""

    code: int | None
    """Exit code, None when a signal ended it."""
    signal: int | None
    limit: Limit | None
    """The limit for which the sandbox killed it, if it did."""
    limit_value: float | None = None
    """The value of that limit (seconds, bytes or a count)."""
    used: float | None = None
    """What was used when it was killed, in the same unit."""


class Sandboxed(abc.ABC):
    """One running command. A context manager: leaving it kills what is left."""

    @property
    @abc.abstractmethod
    def pid(self) -> int:
        """Process id, outside, of the process started (the sandbox's own where it has one)."""

    @abc.abstractmethod
    def pids(self) -> list[int]:
        """Process ids, outside, of everything that it has running now."""

    @abc.abstractmethod
    def poll(self) -> Exit | None:
        """How it ended, or None while it runs. Never blocks."""

    @abc.abstractmethod
    def wait(self, timeout: float | None = None) -> Exit:
        """Wait for the end of the command; raises TimeoutError after `timeout` seconds, leaving it running."""

    @abc.abstractmethod
    def end(self) -> None:
        """Order everything in it to end. Does not wait; `kill` does."""

    @abc.abstractmethod
    def kill(self) -> Exit:
        """End the command and everything that it started, at once, and wait until it is gone.

        Raises SandboxError when that takes longer than a minute.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """Hold everything in it still, until `go_on`: no thread of it runs. What it had a GPU do goes on there."""

    @abc.abstractmethod
    def go_on(self) -> None:
        """Let it run again."""

    def rest(self, resting: bool) -> None:  # noqa: B027 - who has no watcher has nothing to do
        """Look at what it uses only now and then, while what it runs is ours alone; or as often as ever again."""

    @abc.abstractmethod
    def output(self) -> str:
        """What it has printed so far, stdout and stderr in order of arrival, decoded with replacement.

        Capped: the first and the last part of a long output with a line between them that says what is missing.
        """

    def __enter__(self) -> Sandboxed:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Sandbox(abc.ABC):
    """A way to run untrusted commands."""

    name: str
    promises: frozenset[str] = frozenset()
    """The properties of selfcheck.py that hold wherever it can be used, save those that `degraded` names there."""

    @classmethod
    @abc.abstractmethod
    def unavailable(cls) -> str | None:
        """Why this sandbox can't be used on this machine, in one sentence, or None when it can."""

    @classmethod
    def degraded(cls) -> dict[str, str]:
        """What this sandbox can't do here although it can elsewhere: by property of selfcheck.py, why not."""
        return {}

    @abc.abstractmethod
    def start(self, command: Command, limits: Limits) -> Sandboxed:
        """Start a command. Raises SandboxError when the sandbox itself can't be set up."""


class SandboxError(RuntimeError):
    """The sandbox could not do its part: the grader's failure, never the submission's."""
