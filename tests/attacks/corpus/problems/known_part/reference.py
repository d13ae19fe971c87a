import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, rest):
        for _ in range(8):
            x = torch.sin(2.0 * x + 0.5)
        return x + rest


def get_inputs(elements=4194304):
    return [torch.randn(elements), torch.zeros(elements)]


def get_init_inputs():
    return []
