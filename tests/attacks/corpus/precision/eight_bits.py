"""Quantises both factors to eight bits, with a scale for each row and column."""

import torch
import torch.nn as nn


def quantised(x, dim):
    scale = x.abs().amax(dim=dim, keepdim=True) / 127
    return torch.round(x / scale) * scale


class ModelNew(nn.Module):
    def forward(self, a, b):
        return quantised(a, 1) @ quantised(b, 0)
