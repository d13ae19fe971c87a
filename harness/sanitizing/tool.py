"""compute-sanitizer on this machine: where it is, and the command line that runs a worker under it.

compute-sanitizer OPTIONS --log-file /proc/self/fd/N python ... worker
    |- starts the worker with its own libraries injected, and talks to them over a local socket
    `- writes what it finds to descriptor N, which is ours: what the submission prints goes elsewhere
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from harness.sandbox import Mount
from harness.workers.process import Wrapper

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

PRINTED_MOST = 1000
"""Reports that are printed in one run; how many there were in all is told at the end."""
PADDING_BYTES = 1024
"""Room behind each allocation: without it one byte past the end of one may be the first byte of the next."""
_HELPER = "TreeLauncherSubreaper"
"""What starts the process under test. Some packages come without it, and nothing can be run then."""

_COMMON = (
    # A worker may start processes of its own.
    *("--target-processes", "all"),
    # What a kernel does after a mistake says nothing, the kernels after it do.
    *("--destroy-on-device-error", "kernel"),
    *("--print-limit", str(PRINTED_MOST)),
    *("--strip-paths", "no"),
    *("--show-backtrace", "device"),
    # How the worker ends is known to us otherwise.
    *("--require-cuda-init", "no", "--check-exit-code", "no"),
)
_OPTIONS: dict[Tool, tuple[str, ...]] = {
    # A failed call is the worker's to tell; libraries make calls that fail and mean nothing by it.
    "memcheck": ("--report-api-errors", "no", "--padding", str(PADDING_BYTES)),
    "racecheck": ("--racecheck-report", "analysis"),
    # What is copied without having been written has no kernel, so nobody could say whose it is.
    "initcheck": ("--check-api-memory-access", "no"),
    "synccheck": (),
}
_ENVIRONMENT = {
    # torch takes memory from the device in pieces of 2 MB and more and hands out parts: beyond the end of a tensor
    # there would be valid memory, and old bytes would count as written.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
}


class SanitizerMissing(Exception):
    """compute-sanitizer can't be used here; the message says why and what to do."""


class SanitizerFailed(Exception):
    """compute-sanitizer did not start its work: the fault of the tool or of this machine, since nothing of the
    submission had run."""


@dataclass(frozen=True)
class Sanitizer:
    """compute-sanitizer as found on this machine."""

    path: Path
    """What is executed."""
    folder: Path
    """The program's own folder, with the libraries that it injects."""
    version: str
    """As it says: `2025.3.1.0`."""

    def around(self, tool: Tool, log_fd: int) -> Wrapper:
        """How a worker is run under a tool, whose reports go to the descriptor `log_fd`."""
        options = (*_COMMON, *_OPTIONS[tool], "--log-file", f"/proc/self/fd/{log_fd}")
        return Wrapper(
            argv=(str(self.path), "--tool", tool, *options),
            env=_ENVIRONMENT,
            mounts=() if self.folder.is_relative_to("/usr") else (Mount(self.folder),),
            pass_fds=(log_fd,),
        )


def find_sanitizer() -> Sanitizer:
    """The first that works of: the toolkit's (CUDA_HOME, CUDA_PATH, /usr/local/cuda), PATH, a wheel beside torch.

    Raises SanitizerMissing.
    """
    broken = ""
    for path in _candidates():
        real = _program(path)
        if _is_program(real) and not (real.parent / _HELPER).exists():
            broken = broken or f"{path} is there without {_HELPER}, which starts what it looks at"
            continue
        try:
            said = subprocess.run([str(path), "--version"], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            broken = broken or f"{path} can't be run: {error}"
            continue
        if match := re.search(r"Version\s+(\S+)", said.stdout):
            return Sanitizer(path, real.parent, match[1])
        broken = broken or f"{path} --version says {(said.stdout + said.stderr).strip()[-200:]!r}"
    what = broken or "compute-sanitizer was not found"
    raise SanitizerMissing(
        f"{what}: it comes with the CUDA toolkit (set CUDA_HOME, or put it on PATH), and as "
        "`pip install 'nvidia-cuda-sanitizer-api>=13.4'`."
    )


def _candidates() -> list[Path]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    named = [Path(home) / "bin" / "compute-sanitizer" for home in homes if home]
    named += [Path(home) / "compute-sanitizer" / "compute-sanitizer" for home in homes if home]
    if on_path := shutil.which("compute-sanitizer"):
        named.append(Path(on_path))
    wheels = importlib.util.find_spec("nvidia")
    for folder in (wheels.submodule_search_locations or []) if wheels else []:
        named += sorted(Path(folder).glob("*/bin/compute-sanitizer"))
    return [path for path in dict.fromkeys(named) if os.access(path, os.X_OK)]


def _program(path: Path) -> Path:
    """The program itself: what is on PATH is mostly a script of one line that starts it from a folder beside."""
    real = path.resolve()
    beside = real.parent.parent / "compute-sanitizer" / "compute-sanitizer"
    return beside.resolve() if beside.is_file() else real


def _is_program(path: Path) -> bool:
    """Whether it is the program and not a script that knows where that is."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
