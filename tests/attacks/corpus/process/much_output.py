"""Prints a gigabyte."""

import sys

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(1 << 10):
            sys.stdout.write("x" * (1 << 20))
        return x + 1.0
