"""Computes in its input, where the problem allows it."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.add_(1.0)
