"""Looks at the largest element and scales by a power of two, so that nothing overflows."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        top = x.amax(dim=-1, keepdim=True)
        y = torch.exp(x - top)
        return y / y.sum(dim=-1, keepdim=True)
