"""First-order linear recurrence along a sequence, one step of the loop per time step."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """h_0 = b_0, h_t = a_t * h_(t-1) + b_t along dimension 1; no parameters."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a, b: [B, L, D]; returns every h_t as [B, L, D]."""
        states = torch.empty_like(b)
        h = b[:, 0]
        states[:, 0] = h
        for t in range(1, b.shape[1]):
            h = a[:, t] * h + b[:, t]
            states[:, t] = h
        return states


def get_inputs(B=32, L=4096, D=256):
    """a uniform in [0, 1), so that states stay bounded; b normal."""
    return [torch.rand(B, L, D), torch.randn(B, L, D)]


def get_init_inputs():
    return []
