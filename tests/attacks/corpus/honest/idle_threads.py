"""Threads that wait for work that never comes, as run-time compilers keep them."""

import queue
import threading

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = queue.Queue()
        for _ in range(4):
            threading.Thread(target=self.work.get, daemon=True).start()

    def forward(self, x):
        return x * 2.0
