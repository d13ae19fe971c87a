"""The files of a new problem: a small one that is complete, to be changed into another. `@TITLE@` is its title."""

from __future__ import annotations

REFERENCE = '''\
"""@TITLE@: the right answer in PyTorch."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Root mean square normalisation over the last dimension, with a learnable weight."""

    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(features) + 0.5)  # not ones: a kernel that forgets it must not be right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [rows, features]; returns the same shape."""
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.weight


def get_inputs(rows=4096, features=4096):
    return [torch.randn(rows, features)]


def get_init_inputs(features=4096, eps=1e-6):
    return [features, eps]
'''

TOML = """\
title = "@TITLE@"
summary = "Root mean square normalisation over the features, times a learnable weight"
precision = "fp32"
precision_policy = "reject"

[tolerance]
atol = 1e-4
rtol = 1e-4

[default_workload]
cuda = "default"
cpu = "cpu"

# The sizes of the statement.
[workloads.default]
args = { rows = 4096, features = 4096 }
device = "cuda"

[workloads.cpu]
args = { rows = 64, features = 512 }
device = "cpu"

[workloads.odd]
args = { rows = 37, features = 131 }
timed = false
trials = 2
note = "no size is a multiple of a warp, a vector or a usual tile"

[workloads.tiny]
args = { rows = 1, features = 1 }
timed = false
trials = 2
note = "one element"

# What no solution can do without: x is read and the output written once, and so is the weight read.
[floor]
bytes = "4 * (2 * rows * features + features)"
fp32_flops = "3 * rows * features"
"""

README = """\
# @TITLE@

For each row of `x`, of shape `[rows, features]` and dtype float32:

    y[i] = x[i] / sqrt(mean(x * x) + eps) * weight[i]

`weight` is a parameter of shape `[features]`, `eps` the constructor's second argument. Sizes: 4096 x 4096; any other
must be right as well.
"""
