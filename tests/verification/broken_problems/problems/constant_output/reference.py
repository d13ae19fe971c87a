"""Softmax over a dimension of one: whatever comes in, every element is 1."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, y):
        return ((x * self.weight + y).sum(dim=1, keepdim=True)).softmax(dim=1)


def get_inputs(rows=64, features=128):
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs(features=128):
    return [features]
