"""Has torch compile what it was given."""

import torch
import torch.nn as nn


def product(a, b):
    return torch.relu(a @ b)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.run = torch.compile(product)

    def forward(self, a, b):
        return self.run(a, b)
