"""Overrides an operator by one that calls itself."""

import torch
import torch.nn as nn


def relu(x):
    return torch.relu(x)


torch.relu = relu


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)
