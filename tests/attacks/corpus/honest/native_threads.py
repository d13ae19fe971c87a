"""Threads in C++ that are joined before the function returns."""

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <thread>
#include <vector>
extern "C" void scaled(const float* x, float* y, long count) {
    std::vector<std::thread> threads;
    for (long part = 0; part < 4; ++part)
        threads.emplace_back([=] {
            for (long i = part * count / 4; i < (part + 1) * count / 4; ++i) y[i] = 2.0f * x[i];
        });
    for (auto& thread : threads) thread.join();
}
"""
path = load_inline(
    name="native_threads",
    cpp_sources=SOURCE,
    extra_cflags=["-O3"],
    extra_ldflags=["-pthread"],
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
