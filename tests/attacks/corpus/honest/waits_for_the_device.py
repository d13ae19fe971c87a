"""Waits for the device in every call, which costs it time and breaks no rule."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.sin(2.0 * x + 0.5)
        torch.cuda.synchronize()
        return x
