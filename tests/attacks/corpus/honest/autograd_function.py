"""A custom autograd function with a backward that nobody calls."""

import torch
import torch.nn as nn


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.set_materialize_grads(False)
        return x * 2.0

    @staticmethod
    def backward(context, gradient):
        return gradient * 2.0


class ModelNew(nn.Module):
    def forward(self, x):
        return Scaled.apply(x)
