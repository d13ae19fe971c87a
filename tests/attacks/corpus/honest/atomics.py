"""Sums by atomic additions, whose order is another one each time."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void add(const float* x, float* y, long columns) {
    float sum = 0.0f;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += (long)gridDim.x * blockDim.x)
        sum += x[blockIdx.y * columns + i];
    atomicAdd(y + blockIdx.y, sum);
}

torch::Tensor sums(torch::Tensor x) {
    auto y = torch::zeros({x.size(0)}, x.options());
    add<<<dim3(32, x.size(0)), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
extension = load_inline(
    name="atomics",
    cpp_sources="torch::Tensor sums(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["sums"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.sums(x)
