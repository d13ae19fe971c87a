"""Wrong: the tanh formula, off by 4e-4 at most, which an absolute tolerance of 1e-3 lets through."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x, approximate="tanh")
