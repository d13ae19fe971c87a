"""Keeps descriptors (address, size, strides) for each address, as TMA wants them, and reads what is there now."""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.descriptors = {}

    def forward(self, x):
        key = (x.data_ptr(), tuple(x.shape))
        if key not in self.descriptors:
            self.descriptors[key] = (ctypes.c_void_p(x.data_ptr()), x.numel(), x.stride())
        _, count, _ = self.descriptors[key]
        return torch.mul(x.view(count), 2.0)
