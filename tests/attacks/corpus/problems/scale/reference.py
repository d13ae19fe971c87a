import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs(elements=16777216, dtype="float32"):
    return [torch.randn(elements, dtype=getattr(torch, dtype))]


def get_init_inputs():
    return []
