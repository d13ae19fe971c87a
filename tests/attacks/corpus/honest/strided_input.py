"""Makes its input contiguous itself, which costs a copy and is nobody's business."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.contiguous() * 3.0 + 1.0
