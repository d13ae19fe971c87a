"""Wrong: drops the right elements and forgets to scale up those that stay."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, p):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.p = p

    def forward(self, x):
        kept = nn.functional.dropout(torch.relu(self.linear(x)), self.p, training=True)
        return kept * (1 - self.p)
