"""Stands between the grader and one sandboxed command, and outlives neither.

    grader --(control socket)-- supervisor -- command -- whatever the command starts

Run as a plain script with nothing but the standard library, so that it starts in milliseconds; its argument is the
descriptor of the control socket, or, in a container, the path of a socket to connect to. It lowers its limits,
becomes the reaper of every orphan below it, starts the command and waits. When the command ends, or the grader's end of
the control socket closes (also because the grader was killed), it kills every descendant, says how the command ended,
and goes.

The first line on the control socket is the order, as JSON:

    argv, env, cwd, pass_fds, rlimits
    groups    folders of control groups that the command joins; they are removed at the end
    identity  null, or {"uid", "gid", "groups"} that the command runs under
    filter    null, or a program over system calls (seccomp.py), base64, that the command runs under
    ways      {closed folder: [paths below it]}: paths that this identity has to reach, in a mount namespace of its own

The answer is one JSON line: {"started": pid} or {"error": text}, and at the end {"code": int|null, "signal": int|null}.
After that last line the grader's end is waited for, so that it can still look into the control groups.
"""

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import time
from typing import Any

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
LAST_LOOK_S = 5.0
"""Seconds that the grader has to look into the control groups."""


def descendants(root: int) -> list[int]:
    """Process ids of everything below `root`, deepest last."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    level = [root]
    while level:
        level = [child for parent in level for child in children.get(parent, [])]
        found += level
    return found


def kill_descendants() -> None:
    """Kill until nothing is left: a child that forks while being looked for is found in the next round."""
    while below := descendants(os.getpid()):
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Never a wait that blocks: it could be for a child that was forked between the look and the kill.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def open_ways(ways: dict[str, list[str]]) -> None:
    """Put an empty folder that everybody may enter over each closed one, with just the wanted paths below it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        encoded = [text.encode() for text in (source, target, kind)]
        if libc.mount(*encoded, ctypes.c_ulong(flags), options.encode()):
            raise OSError(ctypes.get_errno(), f"mount at {target}: {os.strerror(ctypes.get_errno())}")

    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    mount("none", "/", "none", MS_SLAVE | MS_REC)
    for closed, paths in ways.items():
        held = [(path, os.open(path, os.O_PATH)) for path in paths]
        mount("tmpfs", closed, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=1m")
        for path, handle in held:
            source = f"/proc/self/fd/{handle}"
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            if os.path.isdir(source):
                os.mkdir(path, mode=0o755)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
            mount(source, path, "none", MS_BIND | MS_REC)
            os.close(handle)


def become(order: dict[str, Any]) -> None:
    """Join the control groups and take on the identity; no way leads back from it."""
    os.umask(0o022)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        # When the machine runs out of memory the kernel shall take the stranger, not the grader.
        score.write("1000")
    for folder in order["groups"]:
        with open(f"{folder}/cgroup.procs", "w") as joined:
            joined.write("0")
    if order["ways"]:
        open_ways(order["ways"])
    if identity := order["identity"]:
        for fd in (1, *order["pass_fds"]):
            # Who opens /dev/stdout opens the pipe anew, by name, and needs its permissions.
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.fchown(fd, identity["uid"], identity["gid"])
        os.setgroups(identity["groups"])
        os.setresgid(*[identity["gid"]] * 3)
        os.setresuid(*[identity["uid"]] * 3)


def install_filter(program: bytes) -> None:
    """Run under a filter of system calls from here on, as everything that is started from here will."""

    class Program(ctypes.Structure):
        """struct sock_fprog of linux/filter.h: how many instructions of 8 bytes, and where they are."""

        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    whole = Program(len(program) // 8, program)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(whole), 0, 0
    ):
        raise OSError(ctypes.get_errno(), f"no filter of system calls: {os.strerror(ctypes.get_errno())}")


def start(order: dict[str, Any]) -> int:
    """Fork and exec the command; returns its pid. Raises OSError with what exec said."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            become(order)
            if order["cwd"]:
                os.chdir(order["cwd"])
            keep = {0, 1, 2, write_end, *order["pass_fds"]}
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd not in keep:
                    with contextlib.suppress(OSError):
                        os.close(fd)
            for fd in order["pass_fds"]:
                os.set_inheritable(fd, True)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            if order["filter"]:
                install_filter(base64.b64decode(order["filter"]))
            os.execvpe(order["argv"][0], order["argv"], order["env"])
        except BaseException as error:  # noqa: BLE001 - the fork must end here, whatever went wrong
            os.write(write_end, str(error).encode()[:1000])
            os._exit(127)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as said:
        failure = said.read()
    if failure:
        os.waitpid(pid, 0)
        raise OSError(failure.decode(errors="replace"))
    return pid


def connect(path: str) -> socket.socket:
    """Connect to the grader from inside a container; descriptors come first, with the numbers that they are to have.

    Nothing was inherited here, so any number is free once what is open already is out of the way.
    """
    # Who runs as the same user could otherwise write to this process's memory, and so keep the container alive.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(path)
    said, fds, _, _ = socket.recv_fds(first, 1 << 16, 64)
    numbers = json.loads(said)
    above = max([2, *numbers, *fds]) + 1
    control = socket.socket(fileno=fcntl.fcntl(first.fileno(), fcntl.F_DUPFD_CLOEXEC, above))
    first.close()
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
    os.set_inheritable(1, True)
    os.dup2(1, 2)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    control.sendall(b"\n")
    return control


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1])) if sys.argv[1].isdigit() else connect(sys.argv[1])
    control.set_inheritable(False)
    order = json.loads(control.makefile("rb").readline())
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for name, value in order["rlimits"].items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Ctrl-C reaches the whole foreground group; the grader decides what happens then.
        signal.signal(ignored, signal.SIG_IGN)
    try:
        supervise(control, order, wake_read)
    finally:
        for folder in order["groups"]:
            # What can't be removed now is swept by a later grader.
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def supervise(control: socket.socket, order: dict[str, Any], wake_read: int) -> None:
    """Start the command, wait for its end or the grader's, end what is left, and say how it was."""
    try:
        child = start(order)
    except OSError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    with contextlib.suppress(OSError):
        control.sendall(json.dumps({"started": child}).encode() + b"\n")
    status = None
    while status is None:
        ready, _, _ = select.select([control.fileno(), wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, ended = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == child:
                    status = ended
        if control.fileno() in ready:
            # The grader never sends a second line: readable means that its end is closed.
            break
    kill_descendants()
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    answer = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(answer).encode() + b"\n")
        select.select([control.fileno()], [], [], LAST_LOOK_S)


if __name__ == "__main__":
    main()
