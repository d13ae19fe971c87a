"""Keeps ten bits of each factor, as tf32 does."""

import torch
import torch.nn as nn


def rounded(x):
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return rounded(a) @ rounded(b)
