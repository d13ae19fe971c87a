"""A product in a kernel of its own, and a relu of torch's: most of the time is its own."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void multiply(const float* a, const float* b, float* y, int size) {
    __shared__ float left[16][16], right[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < size; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[(long)row * size + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(long)(k + threadIdx.y) * size + column];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    y[(long)row * size + column] = sum;
}

torch::Tensor product(torch::Tensor a, torch::Tensor b) {
    const int size = a.size(0);
    TORCH_CHECK(size % 16 == 0 && a.size(1) == size && b.size(1) == size);
    auto y = torch::empty_like(a);
    multiply<<<dim3(size / 16, size / 16), dim3(16, 16), 0, c10::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), size);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
extension = load_inline(
    name="own_product",
    cpp_sources="torch::Tensor product(torch::Tensor a, torch::Tensor b);",
    cuda_sources=SOURCE,
    functions=["product"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(extension.product(a, b))
