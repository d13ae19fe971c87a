"""Programmatic dependent launch: the second kernel starts early, and waits for the first before it reads."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

__global__ void doubled(const float* x, float* y, long count) {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 4.0f * x[i];
}

__global__ void halved(float* y, long count) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 0.5f * y[i];
}

torch::Tensor scaled(torch::Tensor x) {
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    long count = x.numel();
    const unsigned blocks = (count + 255) / 256;
    doubled<<<blocks, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, halved, y.data_ptr<float>(), count));
    return y;
}
"""
extension = load_inline(
    name="dependent_launch",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.scaled(x)
