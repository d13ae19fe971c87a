"""Mamba's selective state-space layer (S6), with the state updated in a loop over the sequence."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """d_model channels, each with d_state states whose decay depends on the input."""

    def __init__(self, d_model, d_state):
        super().__init__()
        self.A_log = nn.Parameter(torch.randn(d_model, d_state))
        self.proj_B = nn.Linear(d_model, d_state, bias=False)
        self.proj_C = nn.Linear(d_model, d_state, bias=False)
        self.proj_delta = nn.Linear(d_model, d_model)
        self.D = nn.Parameter(torch.ones(d_model))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, L, d_model]; returns [B, L, d_model]."""
        batch, length, d_model = x.shape
        d_state = self.A_log.shape[1]
        delta = F.softplus(self.proj_delta(x))  # [B, L, D]
        B = self.proj_B(x)  # [B, L, N]
        C = self.proj_C(x)  # [B, L, N]
        A = -torch.exp(self.A_log)  # [D, N]
        dA = torch.exp(delta.unsqueeze(-1) * A)  # [B, L, D, N]
        dB = delta.unsqueeze(-1) * B.unsqueeze(2)  # [B, L, D, N]
        xdB = x.unsqueeze(-1) * dB  # [B, L, D, N]
        h = x.new_zeros(batch, d_model, d_state)
        y = torch.empty_like(x)
        for t in range(length):
            h = dA[:, t] * h + xdB[:, t]
            y[:, t] = (h * C[:, t].unsqueeze(1)).sum(-1)
        return y + x * self.D


def get_inputs(B=16, L=2048, d_model=256):
    return [torch.randn(B, L, d_model)]


def get_init_inputs(d_model=256, d_state=16):
    return [d_model, d_state]
