"""A sparse tensor of the right shape."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x * 2.0).to_sparse()
