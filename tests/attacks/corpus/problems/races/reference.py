import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs(elements=4096):
    return [torch.randn(elements)]


def get_init_inputs():
    return []
