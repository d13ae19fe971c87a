"""A softmax that does not take the largest element off."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.exp(x)
        return y / y.sum(dim=-1, keepdim=True)
