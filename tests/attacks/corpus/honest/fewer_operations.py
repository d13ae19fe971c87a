"""Leaves out what the result does not depend on: eight multiplications by one."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x + x
