"""Control groups: the kernel's own fence around a command's memory and number of processes.

What usage.py adds up is looked at now and then, and some memory has no place to look: shared mappings that nobody maps
just now, files that travel through a socket, pipes and page tables. The kernel counts all of it against the group. The
watcher's limit stays the one that is said; the fence stands a little behind it, so that it is met only by what the
watcher can't see or can't see in time.

Version 2 of the interface is one tree; version 1 has one for each controller, of which those for memory and pids are
used here. A group is made below the nearest one around the grader that allows it, so that limits around that one hold.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.base import Limit, Limits

_PROC = Path("/proc/self/cgroup")
_MOUNTS = Path("/proc/self/mounts")
_PREFIX = "harness-"
EXTRA_TASKS = 16
"""What a sandbox runs beside the command, and room for the watcher to see that there are too many."""


@dataclass(frozen=True)
class Place:
    """Where groups can be made: one folder of version 2, or one for memory and one for pids of version 1."""

    version: int
    memory: Path
    pids: Path


class Group:
    """The control group of one command. `folders` are for the supervisor, which joins before the command starts."""

    def __init__(self, place: Place, limits: Limits) -> None:
        """Raises OSError where it can't be made."""
        # The owner is named for `_sweep`: a group whose owner lives is about to be used.
        name = f"{_PREFIX}{_namespace()}-{os.getpid()}-{secrets.token_hex(6)}"
        self._version = place.version
        self._limits = limits
        self._memory = place.memory / name
        self.folders = tuple(dict.fromkeys((self._memory, place.pids / name)))
        try:
            for folder in self.folders:
                folder.mkdir()
            if limits.memory_bytes is not None:
                self._limit_memory(fence(limits.memory_bytes))
            if limits.processes is not None:
                _write(self.folders[-1] / "pids.max", limits.processes + EXTRA_TASKS)
        except BaseException:
            self.remove()
            raise

    def _limit_memory(self, most: int) -> None:
        if self._version == 2:
            _write(self._memory / "memory.max", most)
            with contextlib.suppress(OSError):  # there is none where the kernel can't swap
                _write(self._memory / "memory.swap.max", 0)
        else:
            _write(self._memory / "memory.limit_in_bytes", most)
            with contextlib.suppress(OSError):
                _write(self._memory / "memory.memsw.limit_in_bytes", most)

    def pids(self) -> list[int] | None:
        """Process ids of everything in it, the supervisor included; None where it can't be read."""
        try:
            return [int(line) for line in (self._memory / "cgroup.procs").read_text().split()]
        except (OSError, ValueError):
            return None

    def broken(self) -> tuple[Limit, float, float] | None:
        """See `broken`."""
        return broken(Place(self._version, self.folders[0], self.folders[-1]), self._limits)

    def remove(self) -> None:
        """Remove it, unless something is still in it: a later sweep then tries again."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def fence(memory_bytes: int) -> int:
    """Where the kernel's limit stands for a command that may use so many bytes."""
    return memory_bytes + max(memory_bytes // 4, 256 << 20)


def broken(group: Place, limits: Limits) -> tuple[Limit, float, float] | None:
    """The limit at whose fence the kernel had to hold a command up, its value and what was used; None where it had not.

    `group` is the command's own.
    """
    events, peak = ("memory.events", "memory.peak") if group.version == 2 else (
        "memory.oom_control", "memory.max_usage_in_bytes",
    )  # fmt: skip
    if limits.memory_bytes is not None and _count(group.memory / events, "oom_kill"):
        used = limits.memory_bytes
        with contextlib.suppress(OSError, ValueError):
            used = int((group.memory / peak).read_text())
        return Limit.MEMORY, limits.memory_bytes, used
    if limits.processes is not None and _count(group.pids / "pids.events", "max"):
        return Limit.PROCESSES, limits.processes, limits.processes + EXTRA_TASKS
    return None


def group_of(pid: int) -> Place | None:
    """The group that a process is in, for its memory and its number of processes; None where it can't be found."""
    mounts, names = _mounts(), _names(Path(f"/proc/{pid}/cgroup"))
    if {"memory", "pids"} <= mounts.keys() & names.keys():
        return Place(1, *(mounts[name] / names[name].lstrip("/") for name in ("memory", "pids")))
    if "" in mounts and "" in names:
        folder = mounts[""] / names[""].lstrip("/")
        return Place(2, folder, folder)
    return None


def make(limits: Limits) -> Group | None:
    """A group with these limits; None where there is no place for groups. Raises OSError where the place is full."""
    place = _found()
    return Group(place, limits) if isinstance(place, Place) else None


def why_not() -> str | None:
    """Why commands run without a control group here, in one sentence, or None when they have one."""
    place = _found()
    return place if isinstance(place, str) else None


def version() -> int | None:
    """Which version of the interface is used, None for none."""
    place = _found()
    return place.version if isinstance(place, Place) else None


@functools.cache
def _found() -> Place | str:
    """The first place where a group can be made, limited and joined; else why there is none."""
    reasons = []
    for place in _places():
        if (why := _try(place)) is None:
            _sweep(place)
            return place
        reasons.append(f"{place.memory}: {why}")
    if not reasons:
        return "no control groups with the memory and pids controllers are mounted, or none around the grader passes on"
    return f"no control group can be made; nearest: {reasons[0]}"


def _places() -> list[Place]:
    """Where groups might be made, the nearest first."""
    mounts, own = _mounts(), _names(_PROC)
    places = []
    if "" in mounts and "" in own:
        for folder in _upwards(mounts[""], own[""]):
            passed_on = _words(folder / "cgroup.subtree_control")
            if {"memory", "pids"} <= passed_on:
                places.append(Place(2, folder, folder))
    if {"memory", "pids"} <= mounts.keys() & own.keys():
        # Without a rule of version 2: a group of version 1 may hold processes and groups.
        memory, pids = (_upwards(mounts[name], own[name])[:1] for name in ("memory", "pids"))
        places += [Place(1, *pair) for pair in zip(memory, pids, strict=False)]
    return places


def _mounts() -> dict[str, Path]:
    """Where each controller's tree is mounted; version 2's under the empty name."""
    mounts: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for line in _MOUNTS.read_text().splitlines():
            _, where, kind, options, *_ = line.split()
            if kind == "cgroup2":
                mounts.setdefault("", Path(where))
            elif kind == "cgroup":
                for controller in {"memory", "pids"} & set(options.split(",")):
                    mounts.setdefault(controller, Path(where))
    return mounts


def _names(listing: Path) -> dict[str, str]:
    """The group of each controller in a process's listing; version 2's under the empty name."""
    names: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in listing.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            names |= dict.fromkeys(controllers.split(","), name)
    return names


def _upwards(mount: Path, name: str) -> list[Path]:
    """The folders of a group and those around it that can be seen here, the nearest first."""
    group = mount / name.lstrip("/")
    return [folder for folder in (group, *group.parents) if folder.is_relative_to(mount) and folder.is_dir()]


def _words(path: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set(path.read_text().split())
    return set()


def _try(place: Place) -> str | None:
    """Make a group there, limit it and let a process join it; returns what failed."""
    try:
        group = Group(place, Limits(memory_bytes=64 << 20, processes=16))
    except OSError as error:
        return str(error)
    try:
        child = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for folder in group.folders:
                _write(folder / "cgroup.procs", child.pid)
            return None
        finally:
            child.communicate(b"\n")
    except OSError as error:
        return str(error)
    finally:
        group.remove()


def _sweep(place: Place) -> None:
    """Remove what killed graders have left; where their supervisors were killed as well, end what still runs."""
    ours = f"{_PREFIX}{_namespace()}-"
    for parent in dict.fromkeys((place.memory, place.pids)):
        for folder in parent.glob(f"{ours}*-*"):
            owner = folder.name.removeprefix(ours).partition("-")[0]
            if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                for pid in map(int, _words(folder / "cgroup.procs")):
                    with contextlib.suppress(OSError):
                        if pid > 1:
                            os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):  # not empty yet: next time
                    folder.rmdir()


def _namespace() -> int:
    """The PID namespace in which ids of processes are meant; another container may share the tree of groups."""
    return os.stat("/proc/self/ns/pid").st_ino


def _count(path: Path, event: str) -> int:
    """A number out of lines of a name and a number; 0 where it is not there."""
    with contextlib.suppress(OSError, ValueError):
        return int(dict(line.split() for line in path.read_text().splitlines()).get(event, 0))
    return 0


def _write(path: Path, value: int) -> None:
    path.write_text(str(value))
