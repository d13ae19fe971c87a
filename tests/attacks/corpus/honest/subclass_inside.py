"""Uses a subclass of Tensor inside, and returns a plain one."""

import torch
import torch.nn as nn


class Tagged(torch.Tensor):
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        return (x.as_subclass(Tagged) * 2.0).as_subclass(torch.Tensor)
