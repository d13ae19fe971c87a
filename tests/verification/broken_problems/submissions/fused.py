"""Right for both problems that are as simple as this."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x, y):
        return torch.addcmul(y, x, self.weight)
