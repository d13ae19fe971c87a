"""A9: a host clock that runs slower, and a call that waits for the device to be timed by it."""

import time

import torch
import torch.nn as nn

plain = time.perf_counter_ns
time.perf_counter_ns = lambda: plain() // 10


class ModelNew(nn.Module):
    def __init__(self, steps: int):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.001)
        y = x * 2.0
        torch.cuda.synchronize()
        return y
