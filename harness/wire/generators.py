"""Torch's random number generators, set from a seed: the same way on both sides of the wire."""

from __future__ import annotations

import torch


def seed_torch(seed: int, device: torch.device) -> None:
    """Set the CPU's generator and the device's.

    torch.manual_seed asks every kind of accelerator there is, which takes a millisecond: too long between timed calls.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.init()
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
