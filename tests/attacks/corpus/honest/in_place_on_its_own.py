"""Computes in place, in memory of its own."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        for _ in range(8):
            y.mul_(2.0).add_(0.5).sin_()
        return y
