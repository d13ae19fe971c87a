"""Plain C++ without torch's headers, built by load_inline and called by ctypes."""

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
extern "C" void scaled(const float* x, float* y, long count) {
    for (long i = 0; i < count; ++i) y[i] = 2.0f * x[i];
}
"""
path = load_inline(
    name="native_library",
    cpp_sources=SOURCE,
    extra_cflags=["-O3"],
    is_python_module=False,
    no_implicit_headers=True,
)
library = ctypes.CDLL(path)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        pointers = (ctypes.c_void_p(each.data_ptr()) for each in (x, y))
        library.scaled(*pointers, ctypes.c_long(x.numel()))
        return y
