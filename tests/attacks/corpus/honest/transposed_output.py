"""An output whose memory is transposed: shape and values are what counts."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x.t().contiguous() * 3.0 + 1.0).t()
