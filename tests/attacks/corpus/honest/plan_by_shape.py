"""Makes a plan for each shape, as a library does, and carries it out on what it is given."""

import torch
import torch.nn as nn


def plan(shape):
    half = shape[0] // 2
    return lambda x: torch.cat([x[:half] * 2.0, x[half:] * 2.0])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        if x.shape not in self.plans:
            self.plans[x.shape] = plan(x.shape)
        return self.plans[x.shape](x)
