"""What a node grades with, and how it differs from what the others grade with: figures of the two can't be compared."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from harness.machine.device import Device, open_device
from harness.version import VERSION

PREFIX = "grade:"
"""Of the custom resources by which nodes offer to grade."""


@dataclass(frozen=True)
class Facts:
    """What must be equal wherever a batch is graded."""

    harness: str
    """Version, and a digest of the grader's own source."""
    torch: str
    cuda_driver: str | None
    """Version of the GPU's driver; None on a CPU."""
    device: str
    """The device's own name for itself."""
    kind: Literal["cuda", "cpu"]
    arch: str | None
    """Compute capability, `9.0`; None for a CPU."""


_WORDS = {"harness": "harness", "torch": "torch", "cuda_driver": "CUDA driver", "device": "device"}


def facts_of(device: str) -> Facts:
    """Of a device of this machine. Raises DeviceError."""
    found = open_device(device)
    return Facts(own_version(), found.info.torch, found.info.driver, found.info.name, found.kind, found.arch)


def own_version() -> str:
    """Of the grader in this process: two checkouts of one version need not grade alike."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[2]
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return f"{VERSION} (source {digest.hexdigest()[:12]})"


def differences(wanted: Facts, found: Facts) -> str:
    """`torch 2.10 there, 2.11 here; ...`; empty where nothing differs."""
    ours, theirs = asdict(wanted), asdict(found)
    return "; ".join(
        f"{word} {theirs[name] or 'none'} there, {ours[name] or 'none'} wanted"
        for name, word in _WORDS.items()
        if ours[name] != theirs[name]
    )


def most_common(found: Iterable[Facts], harness: str) -> Facts | None:
    """What most nodes have, of those whose grader is ours; of equally many the first. None where none is."""
    counts = Counter(each for each in found if each.harness == harness)
    return counts.most_common(1)[0][0] if counts else None


def resource(device: str, kind: str) -> str:
    """The custom resource by which a node offers a device: `grade:NVIDIA_H200`, `grade:cpu`."""
    return PREFIX + ("cpu" if kind == "cpu" else re.sub(r"[^A-Za-z0-9.-]+", "_", device).strip("_"))


def resources(devices: Sequence[Device]) -> str:
    """What `ray start --resources` takes for a machine with those devices: its GPUs, or its CPU where it has none."""
    gpus = [device for device in devices if device.kind == "cuda"]
    offered = Counter(resource(device.info.name, device.kind) for device in gpus or devices[:1])
    return json.dumps(offered)
