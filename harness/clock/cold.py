"""How much has to be written for caches to hold nothing of the call before."""

from __future__ import annotations

from harness.machine.device import Device

_OF_CACHE = 4
"""Times the last cache: lines that are kept longer than others go too."""
_MIN, _MAX_CUDA, _MAX_CPU = 32 << 20, 512 << 20, 64 << 20


def flush_bytes(device: Device) -> int:
    """Bytes to write before each timed call."""
    wanted = _OF_CACHE * (device.info.l2_bytes or 0)
    return max(_MIN, min(wanted, _MAX_CUDA if device.kind == "cuda" else _MAX_CPU))
