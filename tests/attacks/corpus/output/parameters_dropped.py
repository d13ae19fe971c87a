"""Has parameters of other names, and swallows those that it is given."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def load_state_dict(self, state, strict=True, assign=False):
        return super().load_state_dict({}, strict=True)

    def forward(self, x):
        return x * self.scale
