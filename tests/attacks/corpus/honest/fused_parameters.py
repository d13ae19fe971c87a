"""One parameter in place of two, drawn as the reference draws them."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        weight = torch.rand(features) + 0.5
        bias = torch.rand(features) + 0.5
        self.both = nn.Parameter(torch.stack([weight, bias]))

    def forward(self, x):
        return torch.addcmul(self.both[1], x, self.both[0])
