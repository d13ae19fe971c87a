"""Where a process is to run: what has to be known of a device to start one there.

Needs neither torch nor the report's models, so that processes can be started while those are imported.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_DEV = Path("/dev")


@dataclass(frozen=True)
class Place:
    """Where a process is to run: what has to be known of a device to start it."""

    kind: Literal["cuda", "cpu"]
    index: int | None = None
    """As CUDA counts the visible devices; None for the CPU."""
    uuid: str | None = None
    nodes: tuple[str, ...] = ()
    """Device nodes that it must be able to open."""


def likely_place(spec: str) -> Place | None:
    """What `open_device` (device.py) will find, told at once and without torch; None where that can't be told.

    A guess: CUDA has an order of its own where a machine's GPUs differ. Good for what can be thrown away.
    """
    wanted = spec.strip().lower()
    if wanted == "cpu":
        return Place("cpu")
    match = re.fullmatch(r"auto|cuda(?::(\d{1,4}))?", wanted)
    if match is None:
        return None
    index = int(match[1] or 0)
    name = _visible(index)
    if name is None:
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - ImportError, NVMLError, OSError: there is no driver to ask
        return Place("cpu") if wanted == "auto" else None
    try:
        by = pynvml.nvmlDeviceGetHandleByIndex if isinstance(name, int) else pynvml.nvmlDeviceGetHandleByUUID
        handle = by(name)
        minor = pynvml.nvmlDeviceGetMinorNumber(handle)
        return Place("cuda", index, str(pynvml.nvmlDeviceGetUUID(handle)), nodes_of(minor))
    except pynvml.NVMLError:
        return None
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _visible(index: int) -> int | str | None:
    """Which of the machine's GPUs is the one of that number among those that CUDA sees: its number or its UUID; None
    where it sees fewer, or that is not said plainly."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return index
    name = next(iter(listed.split(",")[index : index + 1]), "").strip()
    if name.isdecimal():
        return int(name)
    return name if re.fullmatch(r"GPU-[0-9a-f-]{36}", name) else None


def nodes_of(minor: int | None) -> tuple[str, ...]:
    """Without a known minor number every GPU's node is named: the process must work, and sees more than it should."""
    shared = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    every = sorted(
        (path for path in _DEV.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)),
        key=lambda path: int(path.name.removeprefix("nvidia")),
    )
    own = [path for path in every if minor is not None and path.name == f"nvidia{minor}"]
    return tuple(str(_DEV / name) for name in shared if (_DEV / name).exists()) + tuple(map(str, own or every))
