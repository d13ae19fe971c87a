"""Asks for a compiler plugin, which would run its own code while compiling."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="compiler_plugin",
    cpp_sources="int zero() { return 0; }\n",
    extra_cflags=["-fplugin=/tmp/plugin.so"],
    no_implicit_headers=True,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
