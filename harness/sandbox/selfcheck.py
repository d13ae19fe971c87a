"""What a sandbox keeps on this machine: found out by running probe.py in it and looking at that from both sides.

    selfcheck.check(sandbox) -> [Property, ...]

A property that a sandbox promises, and whose absence here it has not announced (`Sandbox.degraded`), has to hold: where
it does not, the sandbox is broken and no grading should rely on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.sandbox.base import Command, Limit, Limits, Mount, Sandbox, Sandboxed, SandboxError
from harness.sandbox.mounts import interpreter_mounts
from harness.sandbox.supervisor import descendants

PROPERTIES = {
    "namespaces": "PID, network, IPC, mount and UTS namespaces of its own",
    "user_namespace": "a user namespace of its own",
    "system_calls": "a filter refuses calls that reach other processes, namespaces and drivers",
    "capabilities": "no capability, and no way to get one",
    "outside_id": "a user id outside that owns nothing",
    "kernel_limits": "a control group fences memory and processes",
    "limits": "memory, processes, processor time and output end it at their limits",
    "files": "sees and writes to nothing that was not named",
    "private_folders": "/tmp, /dev/shm and home of its own, with sizes",
    "network": "reaches nobody",
    "environment": "built from nothing",
    "descriptors": "inherits none but those that are handed over",
    "passing": "the wire, and memory that is passed through it, arrive",
    "orphans": "what leaves its session ends with it",
    "gpu": "opens the GPUs that it is given and sees no other",
}
ALL = frozenset(PROPERTIES)
_PROBE = Path(__file__).with_name("probe.py")
_MEMORY = 96 << 20
_WAIT_S = 30.0


@dataclass(frozen=True)
class Property:
    """One thing that a sandbox keeps, or does not."""

    name: str
    holds: bool
    promised: bool
    """Whether it has to hold for the sandbox to be used."""
    detail: str
    """What was seen, or why it does not hold."""


def check(sandbox: Sandbox) -> list[Property]:
    """Try everything. Raises SandboxError where nothing can be started."""
    found = {**_look(sandbox), "limits": _limits(sandbox), "orphans": _orphans(sandbox)}
    degraded = sandbox.degraded()
    properties = []
    for name in PROPERTIES:
        holds, detail = found[name]
        if not holds and name in degraded:
            detail = degraded[name]
        properties.append(Property(name, holds, name in sandbox.promises and name not in degraded, detail))
    return properties


def faults(properties: list[Property]) -> list[Property]:
    """Those that were promised and do not hold."""
    return [each for each in properties if each.promised and not each.holds]


def _look(sandbox: Sandbox) -> dict[str, tuple[bool, str]]:
    nodes = _gpu_nodes()
    with contextlib.ExitStack() as stack:
        secret = stack.enter_context(tempfile.NamedTemporaryFile(prefix="harness-secret-"))
        os.chmod(secret.name, 0o644)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        window = os.memfd_create("window")
        os.write(window, b"hello" + bytes(4091))
        socket.send_fds(ours, [b"x"], [window])
        os.close(window)
        asked = {
            "secret": secret.name,
            "port": listener.getsockname()[1],
            "wire": theirs.fileno(),
            "nodes": nodes,
        }
        command = Command(
            argv=(sys.executable, "-I", "-S", str(_PROBE), json.dumps(asked)),
            mounts=(*interpreter_mounts(), Mount(_PROBE)),
            pass_fds=(theirs.fileno(),),
            gpus=tuple(nodes),
        )
        running = stack.enter_context(sandbox.start(command, Limits(memory_bytes=1 << 30, wall_s=60)))
        seen = _printed(running)
        return {**_inside(seen, asked), **_outside(running, seen)}


def _inside(seen: dict[str, Any], asked: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    """What the probe itself could tell."""
    answers = [seen[name] for name in ("ptrace", "unshare", "vsock")]
    filtered = seen["filter"] == 2 and answers == ["EPERM", "EPERM", "EAFNOSUPPORT"]
    held = [name for name, bits in seen["capabilities"].items() if int(bits, 16)]
    open_here = [fd for fd in seen["descriptors"] if fd > 2 and fd != asked["wire"]]
    extra = set(seen["environment"]) - {"HOME", "TMPDIR", "LC_CTYPE", "PWD"}
    missing = [f"{node}: {said}" for node, said in seen["opened"].items() if said != "done"]
    others = [name for name in seen["gpus"] if name[6:].isdigit() and f"/dev/{name}" not in asked["nodes"]]
    named = ", ".join(asked["nodes"]) or "none is there to be given"
    reached = seen["connected"] == "done" or seen["interfaces"] != ["lo"]
    return {
        "system_calls": (filtered, f"ptrace, unshare, AF_VSOCK: {', '.join(answers)}; seccomp mode {seen['filter']}"),
        "capabilities": (
            not held and seen["no_new_privileges"],
            "none, no_new_privs set" if not held and seen["no_new_privileges"] else f"{held or 'no_new_privs not set'}",
        ),
        "files": (
            not seen["secret"] and not seen["written"],
            f"a file outside is {'seen' if seen['secret'] else 'not seen'}; writes to {seen['written'] or 'nothing'}",
        ),
        "private_folders": (
            not seen["secret"] and not seen["refused"] and 0 < seen["shm_bytes"] <= 1 << 30,
            f"/dev/shm of {seen['shm_bytes'] >> 20} MiB; refused: {seen['refused'] or 'none'}",
        ),
        "network": (not reached, f"interfaces {seen['interfaces']}; a port of this machine: {seen['connected']}"),
        "environment": (not extra, f"{', '.join(seen['environment'])}"),
        "descriptors": (not open_here, f"open besides the wire: {open_here or 'none'}"),
        "passing": (seen["received"] == "hello", f"memory received holds {seen['received']!r}"),
        "gpu": (not missing and not others, "; ".join([named, *missing, *(f"{name} too" for name in others)])),
    }


def _outside(running: Sandboxed, seen: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    """What can be seen of the command's processes from here."""
    shared = [name for name in ("pid", "net", "ipc", "mnt", "uts") if seen["namespaces"][name] == _own(name)]
    user = seen["namespaces"]["user"]
    ids, groups = set(), set()
    for pid in [running.pid, *descendants(running.pid)]:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            ids |= {int(each) for line in status if line.startswith("Uid:") for each in line.split()[1:]}
            groups.add(Path(f"/proc/{pid}/cgroup").read_text())
    own_group = Path("/proc/self/cgroup").read_text()
    ours = os.geteuid()
    return {
        "namespaces": (not shared, f"shared with the grader: {', '.join(shared) or 'none'}"),
        "user_namespace": (user != _own("user"), f"{user}, the grader's is {_own('user')}"),
        "outside_id": (
            bool(ids) and 0 not in ids and (ours != 0 or ours not in ids),
            f"outside it is {', '.join(map(str, sorted(ids))) or 'unknown'}, the grader {ours}",
        ),
        "kernel_limits": (
            bool(groups) and own_group not in groups,
            "in a group of its own" if own_group not in groups else "in the grader's own group",
        ),
    }


def _limits(sandbox: Sandbox) -> tuple[bool, str]:
    """Go past each limit that is quick to reach."""
    trials = {
        Limit.MEMORY: ("x = b'x' * (400 << 20)", Limits(memory_bytes=_MEMORY)),
        Limit.PROCESSES: ("[os.fork() or time.sleep(60) for _ in range(60)]; time.sleep(60)", Limits(processes=30)),
        Limit.CPU_TIME: ("while True: pass", Limits(cpu_s=0.3)),
        Limit.OUTPUT: ("while True: print('x' * 4000)", Limits(output_bytes=1 << 16)),
    }
    held: list[str] = []
    wrong: list[str] = []
    for limit, (script, limits) in trials.items():
        with sandbox.start(_python(f"import os, time\n{script}\ntime.sleep(60)"), limits) as running:
            ended = _ended(running)
            (held if ended is limit else wrong).append(limit.value)
    return not wrong, f"held: {', '.join(held)}" if not wrong else f"not held: {', '.join(wrong)}"


def _orphans(sandbox: Sandbox) -> tuple[bool, str]:
    """Leave a process that has left its parent and its session, and end the command."""
    script = "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n"
    script += "print(1, flush=True); time.sleep(600)"
    with sandbox.start(_python(script), Limits()) as running:
        deadline = time.monotonic() + _WAIT_S
        while running.output().count("1") < 2 and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        below = [running.pid, *descendants(running.pid)]
    left = [pid for pid in below if os.path.exists(f"/proc/{pid}")]
    return not left, "gone" if not left else f"left: {left}"


def _python(script: str) -> Command:
    return Command(argv=(sys.executable, "-I", "-S", "-c", script), mounts=interpreter_mounts())


def _ended(running: Sandboxed) -> Limit | None:
    with contextlib.suppress(TimeoutError):
        return running.wait(_WAIT_S).limit
    return None


def _printed(running: Sandboxed) -> dict[str, Any]:
    deadline = time.monotonic() + _WAIT_S
    while not (said := running.output()).endswith("}\n"):
        if running.poll() is not None or time.monotonic() > deadline:
            raise SandboxError(f"the probe did not answer: {said.strip()[-500:] or 'it said nothing'}")
        time.sleep(0.01)
    answer: dict[str, Any] = json.loads(said)
    return answer


def _own(name: str) -> str:
    return os.readlink(f"/proc/self/ns/{name}")


def _gpu_nodes() -> list[str]:
    """The nodes of the first GPU, where there is one."""
    from harness.machine.device import DeviceError, open_device

    try:
        return list(open_device("auto").nodes)
    except DeviceError:
        return []
