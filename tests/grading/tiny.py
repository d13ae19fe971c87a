"""A problem that takes no time: the doubled relu of a small matrix."""

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return torch.relu(x) * self.factor


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return [2.0]
"""
TOML = """
[limits]
import_s = 20
construct_s = 20
call_s = 20

[workloads.default]
trials = 2
"""
