"""A supervised process tree with its limits watched and its output kept: what every sandbox builds on.

SupervisedProcess
  |- supervisor.py       starts the command, ends all it started; where it runs: hosts.py
  |- output reader       a thread: keeps the head and the tail of what is printed
  |- clock               a thread: wall clock
  `- watcher             a thread: memory, scratch folder, process count
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from harness.sandbox import cgroup
from harness.sandbox.base import Exit, Limit, Limits, Sandboxed, SandboxError
from harness.sandbox.folders import folder_use
from harness.sandbox.hosts import Host, LocalHost
from harness.sandbox.scratch import Scratch
from harness.sandbox.usage import Seen, exact_memory, look

_KEEP_HEAD = 64 << 10
_KEEP_TAIL = 64 << 10
_WATCH_EVERY_S = 0.05
_WATCH_FENCED_S = 0.2
"""The same where the kernel watches as well: looking costs milliseconds, which timed calls have better use for."""
_WATCH_RESTING_S = 5.0
"""Between looks at what has nothing to do."""
_DISK_EVERY_S = 0.5
_KILL_WITHIN_S = 60.0
"""How long ending a command may take: killing is quick, removing what it has written need not be."""


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
    """A command under supervisor.py. What is in `scratch` counts as its disk use; the folder goes when it ends."""

    def __init__(self, host: Host, order: dict[str, Any], limits: Limits, scratch: Scratch) -> None:
        """`order` as in supervisor.py, its limits left out. Raises SandboxError, everything removed again."""
        self._host = host
        self._limits = limits
        self._scratch = scratch
        self._disk_device = scratch.data.stat().st_dev
        self._started = time.monotonic()
        self._output = _Output()
        self._exit: Exit | None = None
        self._gone = threading.Event()
        """No process is left; the scratch folder may be."""
        self._ended = threading.Event()
        self._broken: tuple[Limit, float, float] | None = None
        self._resting = False
        self._control = host.control
        self._answers = self._control.makefile("rb")
        full = {"groups": (), "identity": None, "ways": {}, "filter": None, **order}
        full["rlimits"] = _rlimits(limits, alone=full["identity"] is not None)
        try:
            self._control.sendall(json.dumps(full).encode() + b"\n")
            answer = json.loads(self._answers.readline() or b'{"error": "its supervisor died"}')
        except (OSError, ValueError) as error:
            answer = {"error": str(error)}
        if "error" in answer:
            self._abort()
            raise SandboxError(f"could not start {order['argv'][0]}: {answer['error']}")
        self._child = host.outside(int(answer["started"]))
        self._reader = threading.Thread(target=self._read_output, name="sandbox-output", daemon=True)
        self._reader.start()
        threading.Thread(target=self._await_end, name="sandbox-end", daemon=True).start()
        threading.Thread(target=self._watch_clock, name="sandbox-clock", daemon=True).start()
        threading.Thread(target=self._watch, name="sandbox-watch", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._child

    def pids(self) -> list[int]:
        return self._host.pids()

    def poll(self) -> Exit | None:
        return self._exit if self._ended.is_set() else None

    def wait(self, timeout: float | None = None) -> Exit:
        if not self._ended.wait(timeout):
            raise TimeoutError(f"the command still runs after {timeout} s")
        assert self._exit is not None
        return self._exit

    def end(self) -> None:
        self._host.end()

    def kill(self) -> Exit:
        self.end()
        try:
            return self.wait(_KILL_WITHIN_S)
        except TimeoutError:
            raise SandboxError(
                f"the command of process {self._child} could not be ended within {_KILL_WITHIN_S:g} s: "
                "a process may hang in a driver, or its scratch folder can't be removed"
            ) from None

    def stop(self) -> None:
        stopped: set[int] = set()
        # A process that was forked while the others were looked for is found in the next round.
        while fresh := set(self._host.pids()) - stopped:
            _signal_all(fresh, signal.SIGSTOP)
            stopped |= fresh

    def go_on(self) -> None:
        _signal_all(self._host.pids(), signal.SIGCONT)

    def rest(self, resting: bool) -> None:
        self._resting = resting

    def output(self) -> str:
        return self._output.text()

    @property
    def root(self) -> int:
        """Process id, outside, of the supervisor."""
        return self._host.root

    def _abort(self) -> None:
        self._answers.close()
        self._control.close()
        self._host.wait()
        os.close(self._host.output)
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        # What can't be removed now is no reason to fail a grading: it is tried again at the start of a later one.
        with contextlib.suppress(Exception):
            self._scratch.remove()

    def _read_output(self) -> None:
        while data := os.read(self._host.output, 1 << 16):
            self._output.feed(data)
            if self._output.total > self._limits.output_bytes:
                self._break(Limit.OUTPUT, self._limits.output_bytes, self._output.total)

    def _await_end(self) -> None:
        code, sig = None, None
        try:
            code, sig = self._collect()
        finally:
            # Whatever goes wrong here, nobody may wait for ever.
            self._gone.set()
            try:
                self._remove_scratch()
            finally:
                limit, value, used = self._broken or (None, None, None)
                if code is None and sig is None:
                    sig = signal.SIGKILL
                self._exit = Exit(code=code, signal=sig, limit=limit, limit_value=value, used=used)
                self._ended.set()

    def _collect(self) -> tuple[int | None, int | None]:
        """Wait for the end; returns exit code and signal."""
        try:
            answer = json.loads(self._answers.readline() or b"{}")
        except (OSError, ValueError):
            answer = {}
        # The kernel may have been faster than the watcher, or have seen what that can't see.
        self._broken = self._broken or self._host.broken()
        self._answers.close()
        self._control.close()
        self._host.wait()
        self._reader.join(timeout=2)  # what was printed last is still in the pipe
        if not self._reader.is_alive():
            os.close(self._host.output)
        return answer.get("code"), answer.get("signal")

    def _break(self, limit: Limit, value: float, used: float) -> None:
        if self._broken is None:
            self._broken = (limit, value, used)
        self._host.end()

    def _watch_clock(self) -> None:
        limit = self._limits.wall_s
        if limit is not None and not self._gone.wait(self._started + limit - time.monotonic()):
            self._break(Limit.WALL_TIME, limit, time.monotonic() - self._started)

    def _watch(self) -> None:
        try:
            self._measure()
        except Exception as error:  # noqa: BLE001 - a command that can't be measured has no limits: it has to end
            if self._gone.is_set():
                return
            said = f"\n[ended by the sandbox, which could not measure it: {type(error).__name__}: {error}]\n"
            self._output.feed(said.encode(errors="replace"))
            self._host.end()

    def _measure(self) -> None:
        limits = self._limits
        memory_at = disk_at = looked_at = 0.0
        in_folder = 0
        while not self._gone.wait(_WATCH_FENCED_S if self._host.fenced else _WATCH_EVERY_S):
            if self._resting and time.monotonic() - looked_at < _WATCH_RESTING_S:
                continue
            looked_at = time.monotonic()
            seen = look(self._host.root, self._host.pids(), self._disk_device)
            if limits.processes is not None and seen.tasks > limits.processes:
                self._break(Limit.PROCESSES, limits.processes, seen.tasks)
            if limits.cpu_s is not None and seen.cpu_s > limits.cpu_s:
                self._break(Limit.CPU_TIME, limits.cpu_s, seen.cpu_s)
            if limits.memory_bytes is not None and seen.memory > limits.memory_bytes:
                memory_at = self._measure_memory(seen, limits.memory_bytes, memory_at)
            if limits.disk_bytes is not None:
                if (began := time.monotonic()) >= disk_at:
                    in_folder = folder_use(self._scratch.data, at_most=limits.disk_bytes)
                    # A folder that takes long to measure is measured less often: the grader has other things to do.
                    disk_at = time.monotonic() + max(_DISK_EVERY_S, 2 * (time.monotonic() - began))
                if (used := in_folder + seen.deleted_bytes) > limits.disk_bytes:
                    self._break(Limit.DISK, limits.disk_bytes, used)

    def _measure_memory(self, seen: Seen, limit: int, not_before: float) -> float:
        """Measure exactly, unless it was just done and is costly; returns when to do it next."""
        if (began := time.monotonic()) < not_before:
            return not_before
        if (used := exact_memory(seen)) > limit:
            self._break(Limit.MEMORY, limit, used)
        return time.monotonic() + 2 * (time.monotonic() - began)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def start_local(
    order: dict[str, Any], limits: Limits, scratch: Scratch, pass_fds: tuple[int, ...]
) -> SupervisedProcess:
    """Start a command beside the grader, in a control group where there is a place for one. Raises SandboxError."""
    group = None
    try:
        group = cgroup.make(limits)
        host = LocalHost(scratch, pass_fds, group)
    except (OSError, SandboxError) as error:
        if group is not None:
            group.remove()
        with contextlib.suppress(Exception):
            scratch.remove()
        raise error if isinstance(error, SandboxError) else SandboxError(f"no control group: {error}") from error
    folders = [str(folder) for folder in group.folders] if group else []
    return SupervisedProcess(host, {**order, "pass_fds": pass_fds, "groups": folders}, limits, scratch)


def _rlimits(limits: Limits, *, alone: bool) -> dict[str, int]:
    """`alone`: whether nobody else runs under the command's user id."""
    # Never RLIMIT_AS: a CUDA context alone reserves hundreds of GB of addresses.
    chosen: dict[str, int | None] = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": limits.open_files,
        # Also what one look at the folder and the next can differ by, for each file.
        "RLIMIT_FSIZE": limits.disk_bytes if limits.file_bytes is None else limits.file_bytes,
        # For each process; the watcher adds them up.
        "RLIMIT_CPU": None if limits.cpu_s is None else math.ceil(limits.cpu_s) + 1,
    }
    if alone and limits.processes is not None:
        # A fence for a fork bomb between two looks; compilers of one folder share an id, hence four times.
        chosen["RLIMIT_NPROC"] = 4 * limits.processes + 16
    return {name: value for name, value in chosen.items() if value is not None}
