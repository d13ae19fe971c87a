"""Wrong in the last output only: rstd of the unbiased variance, while the normalised values are right."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.bias = nn.Parameter(torch.randn(features))
        self.eps = eps

    def forward(self, x):
        out = nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        return out, x.mean(dim=-1), torch.rsqrt(x.var(dim=-1) + self.eps)
