"""Installs what it needs when it is imported."""

import subprocess
import sys

import torch.nn as nn

options = ["--force-reinstall", "--retries", "0", "--timeout", "1"]
subprocess.run([sys.executable, "-m", "pip", "install", *options, "einops"], check=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
