"""Memory for its workspace from the driver's own pool, freed on the stream."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scale(const float* x, float* y, long count, float factor) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = factor * x[i];
}

torch::Tensor scaled(torch::Tensor x) {
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    const long count = x.numel();
    const unsigned blocks = (count + 255) / 256;
    float* room = nullptr;
    C10_CUDA_CHECK(cudaMallocAsync((void**)&room, count * sizeof(float), stream));
    scale<<<blocks, 256, 0, stream>>>(x.data_ptr<float>(), room, count, 4.0f);
    scale<<<blocks, 256, 0, stream>>>(room, y.data_ptr<float>(), count, 0.5f);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    C10_CUDA_CHECK(cudaFreeAsync(room, stream));
    return y;
}
"""
extension = load_inline(
    name="own_allocator",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
