"""Reads what other threads of its block write, without waiting for them."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scale(const float* x, float* y, long count) {
    __shared__ float room[1024];
    const long i = (long)blockIdx.x * 1024 + threadIdx.x;
    if (threadIdx.x >= 512) __nanosleep(clock() % 997);
    ((volatile float*)room)[threadIdx.x] = i < count ? 2.0f * x[i] : 0.0f;
    const int other = 1023 - threadIdx.x;
    const long j = (long)blockIdx.x * 1024 + other;
    if (j < count) y[j] = ((volatile float*)room)[other];
}

torch::Tensor scaled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const long count = x.numel();
    scale<<<(count + 1023) / 1024, 1024, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
extension = load_inline(
    name="missing_barrier",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
