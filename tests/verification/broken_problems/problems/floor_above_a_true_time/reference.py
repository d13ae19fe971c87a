"""The floor counts bytes as if every element moved four thousand times."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, y):
        return x * self.weight + y


def get_inputs(rows=64, features=128):
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs(features=128):
    return [features]
