"""Docker: the command runs in a container of an image without contents.

    grader --(socket in a private folder, bind-mounted)-- supervisor.py as the container's first process -- command

Nothing can be pulled where gradings run, and nothing needs to be: interpreter, torch and toolkit are mounted read-only,
as bubblewrap does it. Descriptors can't be inherited through the daemon, so they travel over the socket; the supervisor
gives them their numbers before the command starts. When the grader's end of the socket closes, also because the grader
was killed, the supervisor ends, the container with it, and the daemon removes it.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import os
import select
import socket
import stat
import struct
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

from harness.sandbox import cgroup, identity, seccomp, selfcheck
from harness.sandbox.base import Command, Limit, Limits, Mount, Sandbox, Sandboxed, SandboxError
from harness.sandbox.hosts import SUPERVISOR, Host
from harness.sandbox.mounts import interpreter_mounts
from harness.sandbox.process import SupervisedProcess
from harness.sandbox.scratch import Scratch
from harness.sandbox.supervisor import descendants

SCRATCH = "/scratch"
"""Where the private writable folder appears inside."""
_IMAGE = "kernel-harness-empty:1"
_LABEL = "kernel-harness"
_WIRE = "/wire"
_CONNECT_S = 60.0
"""How long a container may take to start."""
_HURRY_S = 10.0
"""How long a supervisor may take to end before its container is killed."""
_STALE_S = 300.0
"""After this long a container that never ran will not run any more: whoever made it was killed in between."""


class DockerSandbox(Sandbox):
    """Containers through a Docker daemon on this machine."""

    name = "docker"
    promises = selfcheck.ALL - {"user_namespace"}
    """The daemon's containers share its user namespace; their commands have an id of their own all the same."""

    @classmethod
    def unavailable(cls) -> str | None:
        return _probe()

    @classmethod
    def degraded(cls) -> dict[str, str]:
        reasons = {
            "outside_id": identity.why_not(),
            "system_calls": seccomp.why_not(),
            "kernel_limits": _why_no_limits(),
        }
        return {name: why for name, why in reasons.items() if why}

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        scratch = Scratch()
        try:
            for name in ("tmp", "home"):
                (scratch.data / name).mkdir()
            for mount in command.mounts:
                if not mount.writable and os.geteuid() == 0:
                    identity.check_readable(mount.source.resolve())
            if os.geteuid() == 0:
                who = identity.take(command, scratch.data)
            else:
                who = identity.Identity(os.geteuid(), os.getegid(), tuple(os.getgroups()))
            host = ContainerHost(command, limits, scratch, who)
        except BaseException as error:
            with contextlib.suppress(OSError):
                scratch.remove()
            if isinstance(error, OSError):
                raise SandboxError(f"a sandbox could not be set up: {error}") from error
            raise
        order = {
            "argv": command.argv,
            "env": {"HOME": f"{SCRATCH}/home", "TMPDIR": "/tmp", **command.env},
            "cwd": str(command.cwd or SCRATCH),
            "pass_fds": command.pass_fds,
            # Beside the daemon's own: its library does not know the newest calls by name.
            "filter": None if seccomp.why_not() else base64.b64encode(seccomp.program()).decode(),
        }
        return SupervisedProcess(host, order, limits, scratch)


class ContainerHost(Host):
    """A supervisor as the first process of a container."""

    def __init__(self, command: Command, limits: Limits, scratch: Scratch, who: identity.Identity) -> None:
        """Raises SandboxError, nothing left behind but the scratch folder."""
        self._limits = limits
        self._ended = threading.Event()
        wire = scratch.data.parent / "wire"
        wire.mkdir(mode=0o711)
        wire.chmod(0o711)
        with socket.socket(socket.AF_UNIX) as listener:
            # By way of the folder's descriptor: a socket's path may have 107 characters, temporary folders have more.
            folder = os.open(wire, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                listener.bind(f"/proc/self/fd/{folder}/socket")
            finally:
                os.close(folder)
            os.chmod(wire / "socket", 0o600)
            if os.geteuid() == 0:
                os.chown(wire / "socket", who.uid, who.gid)
            listener.listen(1)
            listener.settimeout(0.1)
            self._client = _connect()
            self.output, output = os.pipe()
            try:
                for fd in (output, *command.pass_fds):
                    # Who opens /dev/stdout opens the pipe anew, by name, and needs its permissions.
                    if os.geteuid() == 0 and stat.S_ISFIFO(os.fstat(fd).st_mode):
                        os.fchown(fd, who.uid, who.gid)
                self._name = _create(self._client, command, limits, scratch, wire, who)
                try:
                    self._client.api.start(self._name)
                    self.control = self._accept(listener, who.uid)
                    self._hand_over((1, scratch.lock, *command.pass_fds), (output, scratch.lock, *command.pass_fds))
                except BaseException:
                    self._remove()
                    raise
            except BaseException as error:
                os.close(self.output)
                if isinstance(error, OSError):  # what docker and its transport raise is one, or becomes one below
                    raise SandboxError(f"no container could be started: {error}") from error
                raise
            finally:
                os.close(output)
                (wire / "socket").unlink(missing_ok=True)

    def _accept(self, listener: socket.socket, uid: int) -> socket.socket:
        """The supervisor's connection: who is at its other end is the kernel's word, not its own."""
        deadline = time.monotonic() + _CONNECT_S
        while True:
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                break
            state = self._client.api.inspect_container(self._name)["State"]
            if state["Status"] not in ("created", "running") or time.monotonic() > deadline:
                raise SandboxError(f"the container's supervisor did not come up: {json.dumps(state)[:500]}")
        connection.settimeout(_CONNECT_S)
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        self.root, peer, _ = struct.unpack("3i", credentials)
        if not self.root or peer != uid:
            connection.close()
            raise SandboxError("the container's processes can't be seen from here, and so not be limited")
        self._handle = os.pidfd_open(self.root)
        self._group = cgroup.group_of(self.root)
        return connection

    def _hand_over(self, numbers: tuple[int, ...], fds: tuple[int, ...]) -> None:
        socket.send_fds(self.control, [json.dumps(numbers).encode()], list(fds))
        if self.control.recv(1) != b"\n":
            self.control.close()
            raise SandboxError("the container's supervisor did not take its descriptors")
        self.control.settimeout(None)

    def outside(self, pid: int) -> int:
        """A process has a number in each PID namespace that sees it: the first is ours, the last its own."""
        for below in descendants(self.root):
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{below}/status").read_text().splitlines()
                numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
                if int(numbers[-1]) == pid:
                    return below
        return self.root  # it has ended already

    def end(self) -> None:
        super().end()
        timer = threading.Timer(_HURRY_S, self._kill_unless_ended)
        timer.daemon = True
        timer.start()

    def _kill_unless_ended(self) -> None:
        if not self._ended.is_set():
            with contextlib.suppress(Exception):
                self._client.api.kill(self._name)

    def broken(self) -> tuple[Limit, float, float] | None:
        return cgroup.broken(self._group, self._limits) if self._group else None

    def wait(self) -> None:
        if not select.select([self._handle], [], [], _HURRY_S)[0]:
            self._kill_unless_ended()
            select.select([self._handle], [], [], _HURRY_S)
        self._ended.set()
        os.close(self._handle)
        self._remove()
        self._client.close()

    def _remove(self) -> None:
        """Wait until it is gone: the daemon removes it by itself when it has ended, or else is told to."""
        import docker.errors

        began = time.monotonic()
        while (waited := time.monotonic() - began) < _HURRY_S:
            try:
                if waited < _HURRY_S / 2:
                    self._client.api.inspect_container(self._name)
                else:
                    self._client.api.remove_container(self._name, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError:
                pass  # its removal is in progress
            time.sleep(0.01)


def _create(client: Any, command: Command, limits: Limits, scratch: Scratch, wire: Path, who: identity.Identity) -> str:
    """Create the container; returns its name."""
    import docker.errors
    from docker.types import LogConfig
    from docker.types import Mount as Bind

    mounts = {mount.target or mount.source: mount for mount in (*interpreter_mounts(), *command.mounts)}
    mounts[SUPERVISOR] = Mount(SUPERVISOR)
    binds = [
        Bind(str(target), str(mount.source.resolve()), "bind", read_only=not mount.writable)
        for target, mount in mounts.items()
    ]
    binds += [
        Bind(SCRATCH, str(scratch.data), "bind"),
        Bind("/tmp", str(scratch.data / "tmp"), "bind"),
        Bind(_WIRE, str(wire), "bind", read_only=True),
    ]
    memory = None if limits.memory_bytes is None else cgroup.fence(limits.memory_bytes)
    name = f"{_LABEL}-{scratch.data.parent.name}"
    config = client.api.create_host_config(
        auto_remove=True,
        binds=None,
        mounts=binds,
        network_mode="none",
        ipc_mode="private",
        userns_mode="host",  # an id that was given files here is the same one there
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true", *_profile(client)],
        mem_limit=memory,
        memswap_limit=memory,
        pids_limit=None if limits.processes is None else limits.processes + cgroup.EXTRA_TASKS,
        shm_size=max(limits.memory_bytes or 1 << 30, 1 << 20),
        # Nothing in there needs the machine's devices and drivers described.
        tmpfs={"/sys": "ro,nosuid,nodev,noexec,size=4k"},
        group_add=list(who.groups),
        devices=[f"{node}:{node}:rw" for node in command.gpus],
        log_config=LogConfig(type="none"),
    )
    argv = [sys.executable, "-I", "-S", str(SUPERVISOR), f"{_WIRE}/socket"]
    try:
        _ensure_image(client)
        client.api.create_container(
            _IMAGE,
            command=argv,
            name=name,
            hostname="sandbox",
            user=f"{who.uid}:{who.gid}",
            host_config=config,
            labels={_LABEL: str(os.getpid())},
            network_disabled=True,
        )
    except docker.errors.DockerException as error:
        raise SandboxError(f"no container could be made: {error}") from error
    return name


def _profile(client: Any) -> list[str]:
    """The option for the daemon's own filter, which holds for the supervisor too; none where it was built without."""
    options = client.info().get("SecurityOptions") or ()
    return [f"seccomp={json.dumps(seccomp.profile())}"] if any("name=seccomp" in each for each in options) else []


def _ensure_image(client: Any) -> None:
    """The image without contents: an archive with nothing in it, imported."""
    import docker.errors

    try:
        client.api.inspect_image(_IMAGE)
    except docker.errors.ImageNotFound:
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        repository, _, tag = _IMAGE.partition(":")
        client.api.import_image_from_data(empty.getvalue(), repository=repository, tag=tag)


def _connect() -> Any:
    """A client of the daemon that the environment names (DOCKER_HOST). Raises SandboxError."""
    try:
        import docker
        import docker.errors
    except ImportError:
        raise SandboxError("the Python package docker is not there: pip install 'kernel-harness[docker]'") from None
    try:
        return docker.from_env(timeout=60)
    except docker.errors.DockerException as error:
        where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        raise SandboxError(f"no Docker daemon answers at {where} (DOCKER_HOST names another): {error}") from error


@functools.cache
def _why_no_limits() -> str | None:
    """Why the daemon can't fence memory and processes, by its own word; None when it can."""
    client = _connect()
    try:
        said = client.info()
    finally:
        client.close()
    missing = [name for name in ("MemoryLimit", "PidsLimit") if not said.get(name)]
    return f"the daemon has no {' and no '.join(missing)} here" if missing else None


@functools.cache
def _probe() -> str | None:
    """Why no container runs here, or None; also removes what killed graders have left."""
    if os.geteuid() == 0 and (why := identity.why_not()):
        return why
    try:
        client = _connect()
        try:
            _sweep(client)
        finally:
            client.close()
        trial = Command(argv=("/bin/true",), mounts=interpreter_mounts())
        with DockerSandbox().start(trial, Limits(wall_s=60)) as running:
            ended = running.wait(90)
        return None if ended.code == 0 else f"a trial ended with {ended}: {running.output()[-300:]}"
    except (SandboxError, OSError, TimeoutError) as error:
        return str(error)


def _sweep(client: Any) -> None:
    """Remove containers that never ran because their grader was killed in between; what ran has ended by itself."""
    for found in client.api.containers(all=True, filters={"label": _LABEL, "status": "created"}):
        if time.time() - found["Created"] > _STALE_S:
            with contextlib.suppress(Exception):
                client.api.remove_container(found["Id"], force=True)
