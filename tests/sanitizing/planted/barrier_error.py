"""A barrier that a part of a warp does not come to."""

# planted: synccheck barrier_error

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* out, int n) {
    __shared__ float held[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (threadIdx.x < 100) {
        __syncthreads();  // planted
        held[threadIdx.x] *= 2.0f;
    }
    if (i < n) out[i] = held[threadIdx.x];
}

torch::Tensor run(torch::Tensor x) {
    const int n = x.numel();
    auto out = torch::empty_like(x);
    twice<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

extension = load_inline(
    name="planted_barrier_error",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
