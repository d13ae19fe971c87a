"""Computes in its input and returns that."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mul_(2.0)
