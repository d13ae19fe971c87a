"""Keeps a workspace for each shape; the result has memory of its own."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspaces = {}

    def forward(self, x):
        key = (tuple(x.shape), x.dtype, x.device)
        if key not in self.workspaces:
            self.workspaces[key] = torch.empty_like(x)
        scratch = torch.add(x, x, out=self.workspaces[key])
        return scratch.clone()
