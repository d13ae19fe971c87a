"""Returns its input where it is not the answer."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x
