"""The last thread has no neighbour, and does not read it."""

# planted: nothing

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float next = i + 1 < n ? x[i + 1] : 0.0f;
        out[i] = 2.0f * x[i] + 0.0f * next;
    }
}

torch::Tensor run(torch::Tensor x) {
    const int n = x.numel();
    auto out = torch::empty_like(x);
    twice<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

extension = load_inline(
    name="clean_out_of_bounds_read",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
