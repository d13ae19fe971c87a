"""The twin of what fools clocks: the same work, and nothing else."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.sin(2.0 * x + 0.5)
        return x
