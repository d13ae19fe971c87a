"""An output that is the middle of a larger allocation of its own."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        room = torch.empty(x.numel() + 256, device=x.device, dtype=x.dtype)
        return torch.mul(x, 2.0, out=room[128 : 128 + x.numel()])
