"""More shared memory than a block gets unasked, and asks for it."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

constexpr int bytes = 64 << 10;

__global__ void scale(const float* x, float* y, long count) {
    extern __shared__ float room[];
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    room[bytes / 4 - 1 - threadIdx.x] = i < count ? x[i] : 0.0f;
    if (i < count) y[i] = 2.0f * room[bytes / 4 - 1 - threadIdx.x];
}

torch::Tensor scaled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const long count = x.numel();
    C10_CUDA_CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    scale<<<(count + 255) / 256, 256, bytes, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
extension = load_inline(
    name="much_shared_memory",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
