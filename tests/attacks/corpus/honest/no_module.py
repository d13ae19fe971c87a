"""A class that is no nn.Module and keeps a partial function as an attribute."""

import functools

import torch


class ModelNew:
    def __init__(self):
        self.run = functools.partial(torch.mul, other=2.0)

    def __call__(self, x):
        return self.run(x)
