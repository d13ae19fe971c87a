"""A pool of threads that all have ended their parts before it returns."""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(4)

    def forward(self, x):
        y = torch.empty_like(x)
        parts = zip(x.chunk(4), y.chunk(4), strict=True)
        list(self.pool.map(lambda pair: torch.mul(pair[0], 2.0, out=pair[1]), parts))
        return y
