"""Adds a little of the last result, as a recurrent state that is never reset."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = 0.0

    def forward(self, x):
        y = x * 2.0 + self.state
        self.state = y.mean() * 0.1 + 0.01
        return y
