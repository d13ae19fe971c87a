"""The terms of each sum shared out among 32 that are taken side by side, and added up at the end."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        count = 32
        left = a.reshape(a.shape[0], -1, count).permute(2, 0, 1)
        right = b.reshape(-1, count, b.shape[1]).permute(1, 0, 2)
        total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        for part in torch.bmm(left, right):
            total += part
        return total
