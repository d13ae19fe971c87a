"""Takes all memory there is."""

import torch
import torch.nn as nn

kept = []


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            kept.append(torch.ones(1 << 26))
