"""A large offset: what varies is below the tolerance, which goes by the output's size."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, y):
        return 1000.0 + 1e-4 * (x * self.weight + y)


def get_inputs(rows=64, features=128):
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs(features=128):
    return [features]
