"""One elementwise kernel."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """y = 2 x."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [elements], fp32."""
        return x * 2.0


def get_inputs(elements=65536):
    """A normal vector."""
    return [torch.randn(elements)]


def get_init_inputs():
    """Nothing."""
    return []
