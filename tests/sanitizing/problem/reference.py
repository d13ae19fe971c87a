"""Twice x, of a length that no block divides."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs(n=5000):
    return [torch.randn(n)]


def get_init_inputs():
    return []
