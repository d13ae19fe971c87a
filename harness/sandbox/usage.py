"""What a process tree uses: memory, tasks, and files that no folder shows.

Two ways to say how much memory it is, since the exact one walks page tables and holds up what it looks at:

    look()           every few hundredths of a second: each process's own figures added up, never too little
    exact_memory()   only when that sum is past the limit: what is shared within the tree counts once
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from dataclasses import dataclass, field

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

Identity = tuple[int, int]
"""Device and inode."""


@dataclass
class Seen:
    """What one look at a tree has found."""

    pids: list[int]
    tasks: int = 0
    cpu_s: float = 0.0
    """Seconds of processor time, of ended processes as well where somebody has waited for them."""
    own: dict[int, int] = field(default_factory=dict)
    """By process: resident bytes, those it shares with others included."""
    anonymous_files: dict[Identity, int] = field(default_factory=dict)
    """Files in memory that are open somewhere in the tree (memfd_create, /dev/shm), mapped or not."""
    deleted: dict[Identity, int] = field(default_factory=dict)
    """Open files without a name, on the scratch folder's device."""
    shm: tuple[int, int] | None = None
    """The tree's private /dev/shm: device and bytes in use."""

    @property
    def memory(self) -> int:
        """Bytes of memory, at least what is really used: a page counts for each process that maps it."""
        return sum(self.own.values()) + sum(self.anonymous_files.values()) + (self.shm[1] if self.shm else 0)

    @property
    def deleted_bytes(self) -> int:
        """Bytes on disk that only an open descriptor keeps."""
        return sum(self.deleted.values())


def look(root: int, pids: list[int], disk_device: int | None) -> Seen:
    """What `pids` use, which are everything below the process `root`."""
    seen = Seen(pids=pids)
    seen.shm = _private_shm(seen.pids)
    # The root's own time is none of the command's, that of its ended children is.
    seen.cpu_s = _cpu_ticks(root, 13, 15) / _TICKS_A_SECOND
    for pid in seen.pids:
        try:
            with open(f"/proc/{pid}/status", errors="replace") as status:
                fields = dict(line.split(":", 1) for line in status if ":" in line)
        except OSError:
            continue
        kinds = ("RssAnon", "RssShmem", "HugetlbPages")
        seen.own[pid] = sum(_kilobytes(fields.get(kind)) for kind in kinds)
        seen.tasks += int(fields.get("Threads", "1"))
        seen.cpu_s += _cpu_ticks(pid, 11, 15) / _TICKS_A_SECOND
        _open_files(pid, disk_device, seen)
    return seen


def exact_memory(seen: Seen) -> int:
    """Bytes of memory with what is shared counted once. Where the kernel doesn't say, as `Seen.memory`."""
    total = sum(seen.anonymous_files.values()) + (seen.shm[1] if seen.shm else 0)
    for pid in seen.pids:
        with contextlib.suppress(OSError):
            fields = {}
            with open(f"/proc/{pid}/smaps_rollup") as rollup:
                for line in rollup:
                    name, _, rest = line.partition(":")
                    fields[name] = rest
            if "Pss_Anon" in fields and "Pss_Shmem" in fields:
                own = sum(_kilobytes(fields.get(kind)) for kind in ("Pss_Anon", "Pss_Shmem", "Private_Hugetlb"))
                total += max(0, own - (_counted_already(pid, seen) if seen.anonymous_files or seen.shm else 0))
                continue
        total += seen.own.get(pid, 0)
    return total


def _counted_already(pid: int, seen: Seen) -> int:
    """Bytes of a process's share of shared memory that lie in files which are counted as files."""
    total, inside, share = 0, False, 0
    with open(f"/proc/{pid}/smaps", errors="replace") as smaps:
        for line in smaps:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                major, _, minor = rest.split()[2].partition(":")
                device, inode = os.makedev(int(major, 16), int(minor, 16)), int(rest.split()[3])
                inside = (device, inode) in seen.anonymous_files or (seen.shm is not None and device == seen.shm[0])
            elif inside and name == "Pss:":
                share = _kilobytes(rest)
            elif inside and name == "Anonymous:":
                # A private mapping's own copies are no part of the file.
                total += max(0, share - _kilobytes(rest))
    return total


def _cpu_ticks(pid: int, first: int, last: int) -> int:
    """Some of utime, stime, cutime, cstime: fields 11 to 14 behind the name in /proc/PID/stat (proc(5))."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat_file:
        return sum(map(int, stat_file.read().rpartition(b")")[2].split()[first:last]))
    return 0


def _open_files(pid: int, disk_device: int | None, seen: Seen) -> None:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            state = os.stat(f"{folder}/{name}")
        except OSError:
            continue
        if not stat.S_ISREG(state.st_mode):
            continue
        identity = (state.st_dev, state.st_ino)
        if state.st_dev in _memory_devices():
            seen.anonymous_files[identity] = state.st_blocks * 512
        elif state.st_dev == disk_device and state.st_nlink == 0:
            seen.deleted[identity] = state.st_blocks * 512


def _private_shm(pids: list[int]) -> tuple[int, int] | None:
    for pid in pids:
        with contextlib.suppress(OSError):
            inside = f"/proc/{pid}/root/dev/shm"
            device = os.stat(inside).st_dev
            # Before the sandbox has changed its root, and without one, it is the machine's: not the tree's alone.
            if os.stat(f"/proc/{pid}/root/dev").st_dev not in (device, os.stat("/dev").st_dev):
                space = os.statvfs(inside)
                return device, (space.f_blocks - space.f_bfree) * space.f_frsize
    return None


@functools.cache
def _memory_devices() -> frozenset[int]:
    """Devices whose files are memory: the kernel's own, of memfd_create and shared mappings, and /dev/shm."""
    made = os.memfd_create("harness-probe", os.MFD_CLOEXEC)
    devices = {os.fstat(made).st_dev}
    os.close(made)
    with contextlib.suppress(OSError):
        shm = os.stat("/dev/shm").st_dev
        if shm != os.stat("/dev").st_dev:
            devices.add(shm)
    return frozenset(devices)


def _kilobytes(field: str | None) -> int:
    return int(field.split()[0]) << 10 if field else 0
