"""Has handlers for faults and signals, and a hook for exceptions."""

import faulthandler
import signal
import sys

import torch.nn as nn

faulthandler.enable()
signal.signal(signal.SIGUSR1, lambda *_: None)
sys.excepthook = sys.__excepthook__


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
