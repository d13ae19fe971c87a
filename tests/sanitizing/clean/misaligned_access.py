"""Four floats at once, from a multiple of four on."""

# planted: nothing

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* out, int n) {
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 4 < n) {
        const float4 four = *reinterpret_cast<const float4*>(x + i);
        out[i] = 2.0f * four.x;
        out[i + 1] = 2.0f * four.y;
        out[i + 2] = 2.0f * four.z;
        out[i + 3] = 2.0f * four.w;
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
    name="clean_misaligned_access",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
