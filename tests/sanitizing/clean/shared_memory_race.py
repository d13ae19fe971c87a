"""Other threads' shared memory is read after a barrier."""

# planted: nothing

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* out, int n) {
    __shared__ float held[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    const float other = held[255 - threadIdx.x];
    if (i < n) out[i] = 2.0f * other;
}

torch::Tensor run(torch::Tensor x) {
    const int n = x.numel();
    auto out = torch::empty_like(x);
    twice<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

extension = load_inline(
    name="clean_shared_memory_race",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
