"""Collects garbage and looks at the number of objects, as code that is short of memory does."""

import gc

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        gc.collect()
        self.objects = len(gc.get_objects())

    def forward(self, x):
        return x * 2.0
