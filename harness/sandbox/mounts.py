"""What a worker gets to see: Python, torch, the toolkit, the driver's libraries, and an environment from nothing."""

from __future__ import annotations

import functools
import importlib.util
import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from harness.sandbox.base import Mount

if TYPE_CHECKING:
    from harness.machine.device import Device
    from harness.machine.place import Place

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/lib32",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
)
_DRIVER = ("/usr/local/nvidia", "/proc/driver/nvidia")
_KEPT = (
    # Which processor's code paths the numeric libraries take: the same here as there, or the two sides differ.
    *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_CBWR", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "LANG", "TZ"),
    # A workplace's own restrictions on what a GPU may be used for hold for workers too.
    *("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"),
)


@functools.cache
def _python_paths() -> tuple[Path, ...]:
    """The interpreter, its standard library and every folder that packages are imported from."""
    named = [sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    named += [*site.getsitepackages(), str(Path(sys.executable).parent), str(Path(sys.executable).resolve().parent)]
    paths = {Path(name) for name in named if name}
    paths.add(Path(torch_folder()))
    return tuple(sorted(path for path in paths if path.exists()))


def torch_folder() -> str:
    """The folder that torch is imported from: not always one that an isolated interpreter looks at (PYTHONPATH)."""
    found = importlib.util.find_spec("torch")
    assert found is not None, "torch is a requirement of the grader's"
    assert found.origin is not None
    return str(Path(found.origin).parent.parent)


def interpreter_mounts() -> tuple[Mount, ...]:
    """The system's programs and libraries, this interpreter and its packages, read-only."""
    return tuple(Mount(path) for path in _outermost(_interpreter_paths()))


def python_mounts(device: Device | Place) -> tuple[Mount, ...]:
    """Everything that an import of torch, a kernel launch and a run-time compiler need, read-only."""
    paths = _interpreter_paths()
    if device.kind == "cuda":
        paths += [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if Path(entry).is_dir()]
    return tuple(Mount(path) for path in _outermost(paths))


def _interpreter_paths() -> list[Path]:
    paths = [Path(name) for name in (*_SYSTEM, *_DRIVER) if Path(name).exists() and not name.startswith("/proc")]
    paths += _python_paths()
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if (home := os.environ.get(variable)) and Path(home).exists():
            paths.append(Path(home))
    return paths


def worker_environment(device: Device | Place) -> dict[str, str]:
    """The environment of a worker on `device`: nothing of the grader's own but what decides how numbers come out."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return env | {
        "PATH": ":".join([str(Path(sys.executable).parent), "/usr/local/cuda/bin", "/usr/local/bin:/usr/bin:/bin"]),
        "CUDA_VISIBLE_DEVICES": device.uuid or str(device.index) if device.kind == "cuda" else "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        # There is no passwd file in a sandbox: who asks for a name gets this one.
        "USER": "worker",
        "LOGNAME": "worker",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_HOME": "/tmp/torch",
        # What torch's profiler says of itself would stand among what the submission printed.
        "KINETO_LOG_LEVEL": "99",
    }


def _outermost(paths: list[Path]) -> list[Path]:
    """Without those that lie inside another one. A symbolic link stays, as the name that others use, and what it leads
    to comes along: a virtual environment or a toolkit may be reached through one."""
    unique = {*paths, *(path.resolve() for path in paths if path.is_symlink())}
    kept: list[Path] = []
    for path in sorted(unique, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept
