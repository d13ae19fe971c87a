"""Takes its own time in every call and says so at the end."""

import atexit
import time

import torch
import torch.nn as nn

seconds = []
atexit.register(lambda: print(f"{len(seconds)} calls"))


class ModelNew(nn.Module):
    def forward(self, x):
        began = time.perf_counter_ns()
        for _ in range(8):
            x = torch.sin(2.0 * x + 0.5)
        seconds.append(time.perf_counter_ns() - began)
        return x
