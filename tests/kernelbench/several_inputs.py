"""Several inputs, tensors and plain values among them: alpha * x * sigmoid(gate) + bias, where the bias may be None."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, gate, bias, alpha, residual):
        out = alpha * x * torch.sigmoid(gate) + bias
        return out if residual is None else out + residual


batch_size = 33
features = 130


def get_inputs():
    return [
        torch.randn(batch_size, features),
        torch.randn(batch_size, features),
        torch.randn(features),
        0.75,
        None,
    ]


def get_init_inputs():
    return []
