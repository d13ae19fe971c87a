"""A callback of the driver's on the caller's stream, in its place in the order."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <atomic>

static std::atomic<long> calls{0};
static void count_call(void*) { ++calls; }

__global__ void scale(const float* x, float* y, long count) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
}

torch::Tensor scaled(torch::Tensor x) {
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    const long count = x.numel();
    C10_CUDA_CHECK(cudaLaunchHostFunc(stream, count_call, nullptr));
    scale<<<(count + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
extension = load_inline(
    name="host_callback_joined",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
