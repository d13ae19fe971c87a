"""Elementwise over 6.4 GB, as large as the field's problems get: what grading costs when the data is all there is."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """softplus(x), elementwise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [rows, columns], fp32; the same shape comes back."""
        return torch.nn.functional.softplus(x)


def get_inputs(rows=4096, columns=393216):
    """One tensor, 6.4 GB at its default size."""
    return [torch.rand(rows, columns)]


def get_init_inputs():
    """No arguments."""
    return []
