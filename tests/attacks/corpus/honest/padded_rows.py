"""An output that is part of a padded buffer: rows with gaps between them."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        padded = torch.empty(rows, columns + 128 - columns % 128, device=x.device, dtype=x.dtype)
        result = padded[:, :columns]
        torch.mul(x, 3.0, out=result)
        return result.add_(1.0)
