"""Sets the flags that many set at the top of a file."""

import os

import torch
import torch.nn as nn

os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "0")
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("highest")
torch.set_grad_enabled(False)
torch.manual_seed(0)


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
