"""A matrix product, batch normalisation in training mode, a learnable scale, and a softmax over the features."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear -> BatchNorm1d (batch statistics) -> times scale -> softmax over dimension 1."""

    def __init__(self, in_features, out_features, bn_eps, bn_momentum, scale_shape):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)
        self.scale = nn.Parameter(torch.empty(*scale_shape))
        # Not the usual ones and zeros: a kernel that forgets one of these must not come out right.
        nn.init.uniform_(self.scale, 0.5, 1.5)
        nn.init.uniform_(self.bn.weight, 0.5, 1.5)
        nn.init.uniform_(self.bn.bias, -0.5, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch, in_features]; returns [batch, out_features], each row summing to 1."""
        return torch.softmax(self.scale * self.bn(self.gemm(x)), dim=1)


def get_inputs(batch=1024, in_features=8192):
    return [torch.rand(batch, in_features)]


def get_init_inputs(in_features=8192, out_features=8192, bn_eps=1e-5, bn_momentum=0.1, scale_shape=(1,)):
    return [in_features, out_features, bn_eps, bn_momentum, scale_shape]
