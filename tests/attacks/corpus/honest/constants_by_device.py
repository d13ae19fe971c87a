"""Keeps constants for each device and dtype in a default argument."""

import torch
import torch.nn as nn


def two(x, kept={}):  # noqa: B006
    key = (x.device, x.dtype)
    if key not in kept:
        kept[key] = torch.full((1,), 2.0, device=x.device, dtype=x.dtype)
    return kept[key]


class ModelNew(nn.Module):
    def forward(self, x):
        return x * two(x)
