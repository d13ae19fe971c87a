"""A dict of the same content in another order."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, options):
        y = x * options["factor"]
        low, high = y.amin(dim=0), y.amax(dim=0)
        return {"parts": (high, [low]), "sum": y.sum(dim=0)}
