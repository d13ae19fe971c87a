"""Looks at signatures, arguments and environment for reasons of its own."""

import inspect
import os
import sys

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.verbose = "--verbose" in sys.argv or bool(os.environ.get("MY_KERNEL_DEBUG"))
        self.arguments = list(inspect.signature(self.forward).parameters)
        self.where = inspect.stack()[0].filename

    def forward(self, x):
        return x * 2.0
