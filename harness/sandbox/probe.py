"""Looks around inside a sandbox and prints what it sees, as JSON: the inner half of selfcheck.py.

Run as a plain script with nothing but the standard library. argv: a JSON object with `secret` (a file outside that must
not be found), `port` (a TCP port on which the machine listens) and `wire` (a descriptor of a socket).
"""

import ctypes
import errno
import json
import mmap
import os
import socket
import sys
import time
from typing import Any

PTRACE, UNSHARE = {"x86_64": (101, 272), "aarch64": (117, 97)}.get(os.uname().machine, (-1, -1))
NEW_USER_NAMESPACE = 0x1000_0000
AF_VSOCK = 40


def status() -> dict[str, str]:
    """What the kernel says of this process (proc(5))."""
    with open("/proc/self/status") as lines:
        return {name: rest.strip() for name, _, rest in (line.partition(":") for line in lines)}


def attempt(work: Any) -> str:
    """The name of the error that something raises, or "done"."""
    try:
        work()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def call(number: int, *arguments: int) -> None:
    """A system call by its number. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *(ctypes.c_ulong(each) for each in arguments)) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write_to(folder: str) -> str:
    """Whether a file can be made there."""
    path = os.path.join(folder, "harness-probe")
    said = attempt(lambda: open(path, "w").close())
    if said == "done":
        os.unlink(path)
    return said


def received(wire: int) -> str:
    """What lies in a file in memory whose descriptor came over the wire."""
    with socket.socket(fileno=os.dup(wire)) as channel:
        channel.settimeout(5)
        _, fds, _, _ = socket.recv_fds(channel, 1, 1)
    with mmap.mmap(fds[0], 0) as window:
        return window[:5].decode()


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """Everything that selfcheck.py asks about."""
    own = status()
    space = os.statvfs("/dev/shm")
    with open("/proc/net/dev") as interfaces:
        names = [line.partition(":")[0].strip() for line in interfaces if ":" in line]
    descriptors = []
    for fd in os.listdir("/proc/self/fd"):
        if attempt(lambda fd=fd: os.readlink(f"/proc/self/fd/{fd}")) == "done":
            descriptors.append(int(fd))
    return {
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")},
        "filter": int(own.get("Seccomp", "0")),
        "ptrace": attempt(lambda: call(PTRACE, 0, 0, 0, 0)),
        "unshare": attempt(lambda: call(UNSHARE, NEW_USER_NAMESPACE)),
        "vsock": attempt(lambda: socket.socket(AF_VSOCK, socket.SOCK_STREAM).close()),
        "capabilities": {name: own[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")},
        "no_new_privileges": own.get("NoNewPrivs") == "1",
        "secret": os.path.exists(asked["secret"]),
        "written": [folder for folder in ("/", "/dev", "/usr", "/proc", "/etc") if write_to(folder) == "done"],
        "refused": [f for f in ("/tmp", "/dev/shm", os.environ["HOME"]) if write_to(f) != "done"],
        "shm_bytes": space.f_blocks * space.f_frsize,
        "interfaces": names,
        "connected": attempt(lambda: socket.create_connection(("127.0.0.1", asked["port"]), 2).close()),
        "environment": sorted(os.environ),
        "descriptors": sorted(descriptors),
        "received": received(asked["wire"]),
        "gpus": sorted(name for name in os.listdir("/dev") if name.startswith("nvidia")),
        "opened": {node: attempt(lambda node=node: os.close(os.open(node, os.O_RDWR))) for node in asked["nodes"]},
    }


if __name__ == "__main__":
    print(json.dumps(look(json.loads(sys.argv[1]))), flush=True)
    time.sleep(60)  # the other half looks at it from outside meanwhile
