"""A3, B28: returns before the work of another thread is done."""

import threading
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, steps: int):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        threading.Thread(target=lambda: (time.sleep(0.0005), torch.mul(x, 2.0, out=y))).start()
        return y
