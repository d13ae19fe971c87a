"""Computes in single precision whatever it is given."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.cumsum(x.float(), dim=-1).to(x.dtype)
