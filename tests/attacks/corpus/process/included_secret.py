"""Has the compiler read a file for it: what stands there would be in the errors."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="included_secret", cpp_sources='#include "/etc/passwd"\n', no_implicit_headers=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2.0
