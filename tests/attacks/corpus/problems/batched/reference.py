import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, x):
        return torch.bmm(a, x)


def get_inputs(batch=16, size=32):
    a = torch.randn(batch, size, size)
    # The last half of them is dense, the first is diagonal.
    a[: batch // 2] *= torch.eye(size)
    return [a, torch.randn(batch, size, 8)]


def get_init_inputs():
    return []
