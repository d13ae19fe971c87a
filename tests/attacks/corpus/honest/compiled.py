"""What torch compiles on the first call."""

import torch
import torch.nn as nn


@torch.compile
def wave(x):
    for _ in range(8):
        x = torch.sin(2.0 * x + 0.5)
    return x


class ModelNew(nn.Module):
    def forward(self, x):
        return wave(x)
