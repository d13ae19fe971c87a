"""Breaks out of a build file with a line of its own."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="second_command",
    cpp_sources="int zero() { return 0; }\n",
    extra_cflags=["-O2\nrule own\n  command = touch /tmp/was_here\nbuild all: own"],
    no_implicit_headers=True,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
