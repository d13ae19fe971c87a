"""Writes where it must not, after it has written a right result: the next user of the device gets the error."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scale(const float* x, float* y, long count) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
}
__global__ void stray(float* y) { y[1ll << 40] = 0.0f; }

torch::Tensor scaled(torch::Tensor x) {
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    const long count = x.numel();
    scale<<<(count + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), count);
    stray<<<1, 1, 0, stream>>>(y.data_ptr<float>());
    return y;
}
"""
extension = load_inline(
    name="illegal_access",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
