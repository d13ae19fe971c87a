"""Returns a tensor that was made in inference mode."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        return x * 2.0
