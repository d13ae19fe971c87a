"""Installs what it needs when it is imported."""

import subprocess
import sys

import torch.nn as nn

subprocess.run([sys.executable, "-m", "pip", "install", "--retries", "0", "--timeout", "1", "einops"], check=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
