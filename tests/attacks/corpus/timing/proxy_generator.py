"""A generator in place of a list, whose elements are computed when they are taken."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, options):
        y = x * options["factor"]
        return {"sum": y.sum(dim=0), "parts": (y.amax(dim=0), (each for each in [y.amin(dim=0)]))}
