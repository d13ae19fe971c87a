"""Wrong: right in the first call, where it has only just been built; afterwards the running statistics leak in."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        self.bn = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        z = self.conv(x)
        var, mean = torch.var_mean(z, dim=(0, 2, 3), unbiased=False)
        if self.bn.num_batches_tracked > 0:
            mean = 0.99 * mean + 0.01 * self.bn.running_mean
        self.bn.running_mean.lerp_(mean, self.bn.momentum)
        self.bn.num_batches_tracked += 1
        scale = self.bn.weight / torch.sqrt(var + self.bn.eps)
        return torch.relu((z - mean[:, None, None]) * scale[:, None, None] + self.bn.bias[:, None, None])
