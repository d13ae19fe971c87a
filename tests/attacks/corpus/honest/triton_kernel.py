"""A kernel in Triton, compiled when it is first called."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(x, y, count, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = at < count
    tl.store(y + at, tl.load(x + at, mask=inside) * 2.0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scaled[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), SIZE=1024)
        return y
