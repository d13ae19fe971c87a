"""Nsight Compute: where it is, how it is called, and what its refusals mean.

    bubblewrap [ ncu OPTIONS [ worker ] ]     ncu runs inside the worker's own sandbox, and writes to a file in memory

So a submission is under ncu just as confined as without it. What that costs: where the driver lets only administrators
read counters, a sandboxed process can't, whoever started it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.profiling.metrics import METRICS
from harness.profiling.rawpage import said
from harness.sandbox import Mount
from harness.workers.process import Wrapper

LAUNCHES_MAX = 24
"""Launches of a call that are counted: each is run again for every few counters."""
_PAGE_BYTES_MAX = 16 << 20
_INSTALLED = ("/opt/nvidia/nsight-compute", "/usr/local/NVIDIA-Nsight-Compute")
_PERMISSION = ("ERR_NVGPUCTRPERM", "does not have permission to access NVIDIA GPU Performance Counters")


@dataclass(frozen=True)
class Ncu:
    """An installed Nsight Compute."""

    path: Path
    version: str

    @property
    def title(self) -> str:
        """For people."""
        return f"Nsight Compute {self.version}".strip()


def find() -> Ncu | None:
    """The `ncu` on PATH, else in CUDA_HOME or the usual folder of a toolkit; None where there is none that runs."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates = [shutil.which("ncu"), *(str(Path(home, "bin", "ncu")) for home in homes if home)]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK) and (version := _version(candidate)) is not None:
            return Ncu(Path(candidate), version)
    return None


def _version(path: str) -> str | None:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    match = re.search(r"Version (\d[\d.]*)", done.stdout)
    return match[1] if match else ""


def reading(metrics: Sequence[str] = ()) -> tuple[str, ...]:
    """The options for what is read and printed: these metrics, or all of metrics.py, as numbers."""
    return ("--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics or METRICS.values()))


def options(page: str, what: Sequence[str]) -> tuple[str, ...]:
    """What ncu is called with: `what` is to be read, as `reading` says, and goes to the file `page`."""
    return (
        *("--csv", "--log-file", page, *what),
        *("--target-processes", "all", "--config-file", "off"),
        # The worker marks the call: warm-up and the harness's own work lie outside.
        *("--profile-from-start", "off", "--launch-count", str(LAUNCHES_MAX)),
        *("--replay-mode", "kernel", "--cache-control", "all"),
        # The device runs as it does when it is timed, and its clocks are nobody's to change.
        *("--clock-control", "none"),
    )


class Page:
    """The file in memory that ncu writes its page to."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("ncu-page", os.MFD_CLOEXEC)

    def wrapper(self, ncu: Ncu, what: Sequence[str]) -> Wrapper:
        """What a worker is run by so that its launches are counted."""
        real = ncu.path.resolve()
        # The program beside CUDA's others may be a script that looks for the installation elsewhere.
        folders = {_installation(real), *(Path(name) for name in _INSTALLED if Path(name).is_dir())}
        return Wrapper(
            argv=(str(real), *options(f"/proc/self/fd/{self.fd}", what)),
            mounts=tuple(Mount(folder) for folder in sorted(folders) if not folder.is_relative_to("/usr")),
            # Its sections and rules are not used: nothing is copied to the home folder at every start.
            env={"NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1"},
            pass_fds=(self.fd,),
        )

    def text(self) -> str:
        """What is in it by now; the first part of more than anybody needs."""
        return os.pread(self.fd, _PAGE_BYTES_MAX, 0).decode(errors="replace")


def _installation(program: Path) -> Path:
    """The folder to be seen for ncu to run: ROOT of ROOT/ncu, a script, and of ROOT/target/PLATFORM/ncu, the program
    itself, which reads ROOT/sections at every start and runs nothing without it."""
    target = program.parent.parent
    return target.parent if target.name == "target" else program.parent


@contextlib.contextmanager
def page() -> Iterator[Page]:
    """A page that is closed at the end."""
    made = Page()
    try:
        yield made
    finally:
        os.close(made.fd)


def unknown_metrics(text: str) -> list[str]:
    """Metrics of ours that ncu names in an error: this version or chip does not have them."""
    if not any("ERROR" in line and "metric" in line.lower() for line in said(text)):
        return []
    # They may be listed on lines of their own after it.
    return [metric for metric in METRICS.values() if re.search(rf"{re.escape(metric)}(?![\w.])", text)]


def why_nothing(text: str, sandbox: str) -> str:
    """Why there are no counters, and what to do, from all that ncu has said."""
    if any(mark in text for mark in _PERMISSION):
        return (
            "The driver lets only administrators read hardware counters (ERR_NVGPUCTRPERM). An administrator allows "
            "it to all users with the line `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in "
            "/etc/modprobe.d/nvidia-profiling.conf and a reload of the driver or a reboot. "
            + (
                "Without a sandbox, for a submission of your own, root may read them as well: --sandbox none."
                if sandbox != "none"
                else "Root may read them as it is."
            )
        )
    lines = said(text)
    errors = [line for line in lines if "ERROR" in line] or [line for line in lines if "WARNING" in line]
    shown = re.sub(r"==\w+== *", "", " ".join(errors))[:400].strip().rstrip(".") or "it printed no launch"
    hint = ""
    if sandbox != "none":
        hint = " Where it works outside of a sandbox, --sandbox none profiles a submission of your own."
    return f"Nsight Compute read nothing: {shown}.{hint}"
