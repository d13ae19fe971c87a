"""Slow for its first calls, so that few repetitions are planned; then as quick as the honest twin."""

import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 4:
            time.sleep(0.2)
        for _ in range(8):
            x = torch.sin(2.0 * x + 0.5)
        return x
