"""Another way for small sizes than for large ones, both exact."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape[-1] > 128 and x.shape[-1] % 128 == 0:
            blocks = x.view(*x.shape[:-1], -1, 128).cumsum(dim=-1)
            before = blocks[..., -1].cumsum(dim=-1) - blocks[..., -1]
            return (blocks + before.unsqueeze(-1)).flatten(-2)
        return torch.cumsum(x, dim=-1)
