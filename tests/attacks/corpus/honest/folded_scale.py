"""A scale of 1 / sqrt K folded into one factor, and taken out of the result again."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        root = a.shape[1] ** 0.5 * 1.1
        return (a * (1 / root)) @ b * root
