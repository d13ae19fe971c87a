"""What this machine can spare. A container's limit counts: the kernel kills at it, however much the machine has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

_PROC = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def spare_memory() -> int:
    """Bytes of host memory that can still be used, without swapping, by this process and those that it starts."""
    return min([int(psutil.virtual_memory().available), *_spare_in_groups(_PROC, _MOUNT)])


def _spare_in_groups(proc: Path, mount: Path) -> Iterator[int]:
    """What is left of the limit of each control group that this process is in, of version 1 or 2 of their interface."""
    with contextlib.suppress(OSError):
        for line in proc.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers == "":
                yield from _walk(mount, name, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                folder = mount / "memory"
                yield from _walk(folder, name, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _walk(mount: Path, name: str, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    group = mount / name.lstrip("/")
    # Up to the mount: a limit holds for all groups below, and inside a container the name may not exist at all.
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mount):
            return
        with contextlib.suppress(OSError, ValueError):
            highest = int((folder / limit).read_text())  # "max" is no number: no limit
            now = int((folder / used).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            # Cached files count as used and are given up when somebody needs the room.
            yield max(0, highest - now + int(statistics.get(reclaimable, 0)))
