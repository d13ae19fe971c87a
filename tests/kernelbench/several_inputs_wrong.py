"""Wrong: the tile of 128 columns never reaches the last two, which keep the value without its bias."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, gate, bias, alpha, residual):
        out = alpha * x * torch.sigmoid(gate)
        whole_tiles = x.shape[1] // 128 * 128
        out[:, :whole_tiles] += bias[:whole_tiles]
        return out if residual is None else out + residual
