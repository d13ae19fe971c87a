"""Ignores every signal that can be ignored, and hangs."""

import os
import signal

import torch.nn as nn

for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        continue
os.register_at_fork(before=lambda: None, after_in_child=lambda: os._exit(0))


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            pass
