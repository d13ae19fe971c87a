"""A plain sum: each product is added to the sum of those before it, and each sum is rounded."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        for k in range(a.shape[1]):
            total += a[:, k : k + 1] * b[k]
        return total
