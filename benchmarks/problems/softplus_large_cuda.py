"""One thread for four elements."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

__global__ void softplus_kernel(const float4* x, float4* y, int64_t fours) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= fours) return;
    float4 v = x[i];
    y[i] = make_float4(softplus(v.x), softplus(v.y), softplus(v.z), softplus(v.w));
}

torch::Tensor softplus_forward(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.scalar_type() == torch::kFloat32, "x: contiguous fp32 on a GPU");
    TORCH_CHECK(x.numel() % 4 == 0, "x: a multiple of four elements");
    auto y = torch::empty_like(x);
    int64_t fours = x.numel() / 4;
    softplus_kernel<<<(fours + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const float4*>(x.data_ptr<float>()), reinterpret_cast<float4*>(y.data_ptr<float>()), fours);
    return y;
}
"""

extension = load_inline(
    name="softplus_large",
    cpp_sources="torch::Tensor softplus_forward(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["softplus_forward"],
)


class ModelNew(nn.Module):
    """As the problem's Model."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [rows, columns], fp32."""
        return extension.softplus_forward(x)
