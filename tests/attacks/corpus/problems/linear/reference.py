import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs(rows=64, inputs=256):
    return [torch.randn(rows, inputs)]


def get_init_inputs(inputs=256, outputs=128):
    return [inputs, outputs]
