"""A supervised process tree with its limits watched and its output kept: what every local sandbox builds on.

SupervisedProcess
  |- supervisor.py       starts the command, ends all it started
  |- output reader       a thread: keeps the head and the tail of what is printed
  `- watcher             a thread: wall clock, memory, output, scratch folder, process count
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from harness.sandbox.base import Exit, Limit, Limits, Sandboxed, SandboxError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_KEEP_HEAD = 64 << 10
_KEEP_TAIL = 64 << 10
_WATCH_EVERY_S = 0.05


class _Output:
    """The head and the tail of a stream, and how long it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        with self._lock:
            self.total += len(data)
            room = _KEEP_HEAD - len(self._head)
            self._head += data[:room]
            rest = data[room:] if room < len(data) else b""
            if rest:
                self._tail.append(rest[-_KEEP_TAIL:])
                self._tail_size += len(self._tail[-1])
                while self._tail_size - len(self._tail[0]) >= _KEEP_TAIL:
                    self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        with self._lock:
            head, tail, total = bytes(self._head), b"".join(self._tail)[-_KEEP_TAIL:], self.total
        missing = total - len(head) - len(tail)
        middle = f"\n[... {missing} bytes left out ...]\n" if missing else ""
        return head.decode(errors="replace") + middle + tail.decode(errors="replace")


class SupervisedProcess(Sandboxed):
    """A command under supervisor.py. `scratch` is a folder outside whose size counts as the command's disk use."""

    def __init__(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        limits: Limits,
        *,
        cwd: str | None,
        pass_fds: tuple[int, ...],
        scratch: Path | None,
        on_end: contextlib.ExitStack | None = None,
    ) -> None:
        self._limits = limits
        self._scratch = scratch
        self._on_end = on_end or contextlib.ExitStack()
        self._started = time.monotonic()
        self._output = _Output()
        self._exit: Exit | None = None
        self._ended = threading.Event()
        self._broken: tuple[Limit, float, float] | None = None
        ours, theirs = socket.socketpair()
        self._control = ours
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), *pass_fds),
                start_new_session=True,
                env={},
            )
        except OSError as error:
            self._on_end.close()
            raise SandboxError(f"could not start the supervisor of a sandboxed process: {error}") from error
        finally:
            theirs.close()
        order = {"argv": argv, "env": env, "cwd": cwd, "pass_fds": pass_fds, "rlimits": _rlimits(limits)}
        self._answers = ours.makefile("rb")
        try:
            ours.sendall(json.dumps(order).encode() + b"\n")
            answer = json.loads(self._answers.readline() or b'{"error": "its supervisor died"}')
        except OSError as error:
            answer = {"error": str(error)}
        if "error" in answer:
            self._abort()
            raise SandboxError(f"could not start {argv[0]}: {answer['error']}")
        self._child = int(answer["started"])
        self._reader = threading.Thread(target=self._read_output, name="sandbox-output", daemon=True)
        self._reader.start()
        threading.Thread(target=self._await_end, name="sandbox-end", daemon=True).start()
        threading.Thread(target=self._watch, name="sandbox-watch", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._child

    def poll(self) -> Exit | None:
        return self._exit if self._ended.is_set() else None

    def wait(self, timeout: float | None = None) -> Exit:
        if not self._ended.wait(timeout):
            raise TimeoutError(f"the command still runs after {timeout} s")
        assert self._exit is not None
        return self._exit

    def kill(self) -> Exit:
        # Closing our end is the order to end everything: the same as when the grader itself dies.
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        return self.wait()

    def output(self) -> str:
        return self._output.text()

    def _abort(self) -> None:
        self._control.close()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._on_end.close()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        while data := os.read(stream, 1 << 16):
            self._output.feed(data)
            if self._output.total > self._limits.output_bytes:
                self._break(Limit.OUTPUT, self._limits.output_bytes, self._output.total)

    def _await_end(self) -> None:
        try:
            answer = json.loads(self._answers.readline() or b"{}")
        except (OSError, ValueError):
            answer = {}
        self._process.wait()
        self._reader.join(timeout=2)  # what was printed last is still in the pipe
        limit, value, used = self._broken or (None, None, None)
        code, sig = answer.get("code"), answer.get("signal")
        if code is None and sig is None:
            sig = signal.SIGKILL
        self._answers.close()
        self._control.close()
        if self._process.stdout and not self._reader.is_alive():
            self._process.stdout.close()
        self._on_end.close()
        self._exit = Exit(code=code, signal=sig, limit=limit, limit_value=value, used=used)
        self._ended.set()

    def _break(self, limit: Limit, value: float, used: float) -> None:
        if self._broken is None:
            self._broken = (limit, value, used)
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def _watch(self) -> None:
        limits, rounds = self._limits, 0
        while not self._ended.wait(_WATCH_EVERY_S):
            rounds += 1
            elapsed = time.monotonic() - self._started
            if limits.wall_s is not None and elapsed > limits.wall_s:
                self._break(Limit.WALL_TIME, limits.wall_s, elapsed)
            if limits.memory_bytes is not None or limits.processes is not None:
                memory, tasks = tree_use(self._process.pid)
                if limits.memory_bytes is not None and memory > limits.memory_bytes:
                    self._break(Limit.MEMORY, limits.memory_bytes, memory)
                if limits.processes is not None and tasks > limits.processes:
                    self._break(Limit.PROCESSES, limits.processes, tasks)
            if limits.disk_bytes is not None and self._scratch is not None and rounds % 10 == 0:
                used = folder_size(self._scratch)
                if used > limits.disk_bytes:
                    self._break(Limit.DISK, limits.disk_bytes, used)


def _rlimits(limits: Limits) -> dict[str, int]:
    # Never RLIMIT_AS: a CUDA context alone reserves hundreds of GB of addresses.
    chosen: dict[str, int | None] = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.file_bytes,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def tree_use(root: int) -> tuple[int, int]:
    """Resident bytes and the number of tasks (threads) of everything below `root`, itself not counted.

    Anonymous memory is added up; shared memory is taken from the process that holds most of it, since a mapping that
    is shared within the tree would otherwise count once for each process.
    """
    import psutil

    anonymous, shared, tasks = 0, 0, 0
    try:
        below = psutil.Process(root).children(recursive=True)
    except psutil.Error:
        return 0, 0
    for process in below:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                fields = dict(line.split(":", 1) for line in status)
        except (OSError, ValueError):
            continue
        anonymous += _kilobytes(fields.get("RssAnon"))
        shared = max(shared, _kilobytes(fields.get("RssShmem")))
        tasks += int(fields.get("Threads", "1"))
    return anonymous + shared, tasks


def _kilobytes(field: str | None) -> int:
    return int(field.split()[0]) << 10 if field else 0


def folder_size(folder: Path) -> int:
    """Bytes that the files below `folder` take on disk."""
    total = 0
    for path, _, names in os.walk(folder, onerror=lambda _: None):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total
