"""Wrong: never looks at the last codeword, so that about one row in 65 gets its second best."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, codewords, width):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(codewords, width))

    def forward(self, x):
        distances = (x.unsqueeze(1) - self.codebook[:-1]).square().sum(dim=-1)
        return distances.argmin(dim=1)
