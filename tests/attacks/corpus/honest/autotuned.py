"""Tries its variants in the first calls, by clocks of its own, and keeps the quickest."""

import time

import torch
import torch.nn as nn

VARIANTS = (lambda x: x * 2.0, lambda x: x + x, lambda x: torch.mul(x, 2.0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seconds = {}

    def forward(self, x):
        if len(self.seconds) < len(VARIANTS):
            number = len(self.seconds)
            began = time.perf_counter()
            y = VARIANTS[number](x)
            if x.is_cuda:
                torch.cuda.synchronize()
            self.seconds[number] = time.perf_counter() - began
            return y
        return VARIANTS[min(self.seconds, key=self.seconds.get)](x)
