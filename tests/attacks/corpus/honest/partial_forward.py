"""A forward that is a partial function."""

import functools

import torch.nn as nn


def scaled(x, factor):
    return x * factor


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.forward = functools.partial(scaled, factor=2.0)
