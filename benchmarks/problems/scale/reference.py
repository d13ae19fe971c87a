"""One elementwise kernel, after as many useless ones as the workload asks for."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """y = 2 x."""

    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [elements], fp32."""
        y = x
        for _ in range(self.steps):
            y = y * 1.0
        return y * 2.0


def get_inputs(elements=16777216):
    """A normal vector."""
    return [torch.randn(elements)]


def get_init_inputs(steps=1):
    """How slow the reference is to be."""
    return [steps]
