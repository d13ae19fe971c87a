"""The one kernel that is needed."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """As the problem's Model, without the useless steps."""

    def __init__(self, steps: int):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [elements], fp32."""
        return x * 2.0
