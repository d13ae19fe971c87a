"""Rounds both factors to float16, and adds in float32."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a.half().float() @ b.half().float()
