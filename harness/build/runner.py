"""One compiler run in the sandbox, watched."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from harness.build.outcome import BuildFailure, BuildLimits, FailureCode
from harness.build.toolchain import Toolchain
from harness.sandbox.base import Command, Limit, Limits, Mount, Sandbox

_CODES: dict[Limit, FailureCode] = {
    Limit.WALL_TIME: "build.time_limit",
    Limit.CPU_TIME: "build.time_limit",
    Limit.MEMORY: "build.memory_limit",
    Limit.OUTPUT: "build.output_limit",
    Limit.DISK: "build.disk_limit",
    Limit.PROCESSES: "build.process_limit",
}
_UNITS = {
    "build.time_limit": "s",
    "build.memory_limit": "bytes of memory",
    "build.output_limit": "bytes of output",
    "build.disk_limit": "bytes on disk",
    "build.process_limit": "processes",
}
_LOOK_S = 0.02
"""Seconds between looks at a running compiler, at first; it grows to ten times that."""


@dataclass(frozen=True)
class StepResult:
    """How a compiler run ended."""

    ok: bool
    output: str
    seconds: float
    failure: BuildFailure | None = None
    """Set where a limit ended it, and only then."""


def run_step(
    sandbox: Sandbox, toolchain: Toolchain, argv: list[str], folder: Path, limits: BuildLimits, *, what: str,
    mounts: tuple[Mount, ...] = (),
) -> StepResult:  # fmt: skip
    """Run one compiler in `folder`/src with only the toolchain and `folder` in sight."""
    command = Command(
        argv=tuple(argv),
        env=toolchain.environment(folder / "tmp"),
        mounts=(*toolchain.mounts(), *mounts, Mount(source=folder, writable=True)),
        cwd=folder / "src",
    )
    sandbox_limits = Limits(
        wall_s=limits.step_s,
        memory_bytes=limits.memory_bytes,
        output_bytes=limits.output_bytes,
        processes=limits.processes,
        file_bytes=2 * limits.disk_bytes,  # a second fence: the folder is looked at now and then
    )
    started = time.monotonic()
    pause = _LOOK_S
    with sandbox.start(command, sandbox_limits) as running:
        while (end := running.poll()) is None:
            time.sleep(pause)
            pause = min(pause * 1.3, 10 * _LOOK_S)
            used = disk_use(folder)
            if used > limits.disk_bytes:
                running.kill()
                return _disk_full(running.output(), started, what, limits, used)
        output = running.output()
    if (used := disk_use(folder)) > limits.disk_bytes or (end.code and "File too large" in output):
        return _disk_full(output, started, what, limits, used)
    seconds = time.monotonic() - started
    if end.limit is not None:
        return StepResult(False, output, seconds, _limit_failure(_CODES[end.limit], what, end.limit_value, end.used))
    return StepResult(end.code == 0, output, seconds)


def _disk_full(output: str, started: float, what: str, limits: BuildLimits, used: int) -> StepResult:
    failure = _limit_failure("build.disk_limit", what, limits.disk_bytes, used)
    return StepResult(False, output, time.monotonic() - started, failure)


def _limit_failure(code: FailureCode, what: str, limit: float | None, used: float | None) -> BuildFailure:
    unit = _UNITS[code]
    value = "its limit" if limit is None else f"the limit of {limit:.15g} {unit}"
    return BuildFailure(
        code=code,
        message=f"Compiling {what} went past {value} and was ended: the source asks the compiler for too much "
        "(unbounded templates, recursion or includes).",
        evidence={"step": what, "limit": limit, "used": used, "unit": unit},
    )


def disk_use(folder: Path) -> int:
    """Bytes that the files below a folder hold; links are not followed, and what vanishes meanwhile counts nothing."""
    total = 0
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        else:
                            total += entry.stat(follow_symlinks=False).st_blocks * 512
                    except FileNotFoundError:
                        continue
        except FileNotFoundError:
            continue
    return total


def plain_file(path: Path, max_bytes: int) -> bool:
    """Whether a compiler left a plain file there, neither a link nor a device, not empty and not too large."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(state.st_mode) and 0 < state.st_size <= max_bytes
