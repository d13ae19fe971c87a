"""Three products in tf32, which together are as exact as one in fp32."""

import torch
import torch.nn as nn

torch.backends.cuda.matmul.allow_tf32 = True


def high(x):
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a_high, b_high = high(a), high(b)
        a_low, b_low = a - a_high, b - b_high
        return a_high @ b_high + (a_high @ b_low + a_low @ b_high)
