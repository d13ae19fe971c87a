"""Who a sandboxed command is when one looks from outside: a user id that owns nothing and that nobody else has.

A user namespace alone leaves a root grader's command with root's own id: what it may do is held back by the namespace,
but to every file, process and driver outside that it might reach it is their owner. So where the grader is root, each
command gets an id from a range that nothing uses, and the sandbox program itself runs under it as well.

That id can't walk through folders that are closed to others (/root with an interpreter in it): the supervisor opens a
way to just the files that are wanted, in a mount namespace of its own (`ways_to_open`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.base import Command, SandboxError
from harness.sandbox.folders import walk

_RANGES = ((0x7000_0000, 1 << 24), (61184, 4096))
"""First id and how many: a range that systemd's survey of ids (uids-gids.md) knows no user of; where a container maps
few ids, the one from which systemd itself takes ids for a while."""
_CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_PTRACE": 19,
}
"""What a grader needs to give files away, take them back, end the command and see what it uses."""
_giving = threading.Lock()


@dataclass(frozen=True)
class Identity:
    """Ids outside."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Groups that may open the device nodes, where these are not open to everybody."""


def why_not() -> str | None:
    """Why commands run under the grader's own id here, in one sentence, or None when they get another."""
    if os.geteuid() != 0:
        return f"the grader is no root, so its commands have its own id {os.geteuid()} outside"
    return _why_root_can_not()


@functools.cache
def _why_root_can_not() -> str | None:
    held = _effective_capabilities()
    if missing := [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]:
        return f"the grader is root without {', '.join(missing)}"
    if _umask() & 0o005:
        return f"the grader's umask, {_umask():03o}, closes what it writes to every other id"
    if _range() is None:
        return "the grader's user namespace maps no id that could be given away"
    for node in Path("/dev").glob("nvidia[0-9]*"):
        if _group_of(node) is None:
            return f"{node} can be opened by root alone"
    return None


def take(command: Command, scratch: Path) -> Identity:
    """An id for a command, with its scratch folder and what else it may write to made that id's own.

    A folder that was given away before keeps its id: compilers side by side in one folder have to be one user.
    """
    span = _range()
    assert span is not None, "asked although why_not() has an answer"
    first, count = span
    writable = [mount.source for mount in command.mounts if mount.writable]
    groups = {group for node in command.gpus if (group := _group_of(Path(node)))}
    with _giving:
        owners = [owner for path in writable if first <= (owner := path.lstat().st_uid) < first + count]
        uid = owners[0] if owners else first + secrets.randbelow(count)
        for path in (scratch, *writable):
            _give(path, uid)
    return Identity(uid, uid, tuple(sorted(groups)))


def _give(path: Path, uid: int) -> None:
    """Make a folder or file, and everything below, the id's own. Links are not followed."""
    if path.is_dir():
        for what, parent, name, state in walk(path, need=0):
            if what != "leave" and state.st_uid != uid:
                with contextlib.suppress(FileNotFoundError):  # a compiler beside us has removed it
                    os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)
    os.chown(path, uid, uid, follow_symlinks=False)


def check_readable(source: Path) -> None:
    """Raises SandboxError when a file or folder that a command is to see is closed to everybody but its owner."""
    mode = source.stat().st_mode
    need = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    if mode & need != need and not stat.S_ISCHR(mode):
        raise SandboxError(
            f"{source} can't be read by others, and so not by a sandboxed command, which runs under an id of its own: "
            f"chmod -R o+rX {source}"
        )


def ways_to_open(sources: Iterable[Path]) -> dict[str, list[str]]:
    """By folder that is closed to others, the outermost of each: what is wanted from below it, outermost paths only."""
    ways: dict[str, list[str]] = {}
    for source in sorted({path.resolve() for path in sources}, key=lambda path: len(path.parts)):
        closed = [above for above in source.parents if not above.stat().st_mode & stat.S_IXOTH]
        if not closed:
            continue
        if closed[-1] == Path("/"):
            raise SandboxError("the root folder can't be entered by others: chmod o+x /")
        wanted = ways.setdefault(str(closed[-1]), [])
        if not any(source.is_relative_to(already) for already in wanted):
            wanted.append(str(source))
    return ways


def _group_of(node: Path) -> int | None:
    """The group that may open a device, 0 where everybody may (or it is gone), None where nobody but its owner may."""
    with contextlib.suppress(OSError):
        state = node.stat()
        if state.st_mode & 0o006 != 0o006:
            return state.st_gid if state.st_gid and state.st_mode & 0o060 == 0o060 else None
    return 0


@functools.cache
def _range() -> tuple[int, int] | None:
    """The first range of which this user namespace maps all, for users and groups."""
    maps = []
    for name in ("uid_map", "gid_map"):
        with contextlib.suppress(OSError):
            lines = Path("/proc/self", name).read_text().splitlines()
            maps.append([(int(line.split()[0]), int(line.split()[2])) for line in lines])
    for first, count in _RANGES:
        if len(maps) == 2 and all(any(a <= first and first + count <= a + n for a, n in each) for each in maps):
            return first, count
    return None


def _effective_capabilities() -> int:
    return int(_own_status("CapEff"), 16)


def _umask() -> int:
    return int(_own_status("Umask"), 8)


def _own_status(field: str) -> str:
    """A field of /proc/self/status (proc(5)), "0" where there is none."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return "0"
