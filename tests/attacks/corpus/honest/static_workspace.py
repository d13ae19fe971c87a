"""A static workspace on the device, written anew in every call."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__device__ float room[1 << 24];

__global__ void first(const float* x, long count) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) room[i] = x[i] + x[i];
}
__global__ void second(float* y, long count) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = room[i];
}

torch::Tensor scaled(torch::Tensor x) {
    TORCH_CHECK(x.numel() <= 1 << 24);
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    const long count = x.numel();
    const unsigned blocks = (count + 255) / 256;
    first<<<blocks, 256, 0, stream>>>(x.data_ptr<float>(), count);
    second<<<blocks, 256, 0, stream>>>(y.data_ptr<float>(), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
extension = load_inline(
    name="static_workspace",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
