# problem: linear_recurrence
"""Linear recurrence, first try: a whole channel in shared memory. Teaches the 48 KB limit.

One block for each (batch, channel) runs a Hillis-Steele scan over pairs (a, b) in shared memory, double-buffered:
4 * L floats, which is 64 KB at L = 4096. A block gets 48 KB unless cudaFuncSetAttribute raised the limit, so the launch
fails. It fails silently: nobody asks cudaGetLastError, and the output stays what torch::empty_like found.
"""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scan_channel(const float* a, const float* b, float* h, int L, int D) {
    extern __shared__ float shared[];
    float* a_from = shared;
    float* a_to = shared + L;
    float* b_from = shared + 2 * L;
    float* b_to = shared + 3 * L;

    const long long base = (long long)(blockIdx.x / D) * L * D + blockIdx.x % D;
    for (int t = threadIdx.x; t < L; t += blockDim.x) {
        a_from[t] = a[base + (long long)t * D];
        b_from[t] = b[base + (long long)t * D];
    }
    __syncthreads();

    for (int offset = 1; offset < L; offset *= 2) {
        for (int t = threadIdx.x; t < L; t += blockDim.x) {
            const bool has_left = t >= offset;
            const float a_left = has_left ? a_from[t - offset] : 1.0f;
            const float b_left = has_left ? b_from[t - offset] : 0.0f;
            a_to[t] = a_from[t] * a_left;
            b_to[t] = a_from[t] * b_left + b_from[t];
        }
        __syncthreads();
        float* swap = a_from;
        a_from = a_to;
        a_to = swap;
        swap = b_from;
        b_from = b_to;
        b_to = swap;
    }

    for (int t = threadIdx.x; t < L; t += blockDim.x) {
        h[base + (long long)t * D] = b_from[t];
    }
}

torch::Tensor recurrence(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda() && b.is_cuda() && a.is_contiguous() && b.is_contiguous(), "a, b: contiguous CUDA tensors");
    TORCH_CHECK(a.dim() == 3 && a.sizes() == b.sizes(), "a, b: one shape [B, L, D]");
    TORCH_CHECK(a.scalar_type() == torch::kFloat32 && b.scalar_type() == torch::kFloat32, "a, b: float32");
    auto h = torch::empty_like(b);
    const int B = a.size(0), L = a.size(1), D = a.size(2);
    const size_t shared_bytes = 4 * L * sizeof(float);
    scan_channel<<<B * D, 1024, shared_bytes, c10::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), h.data_ptr<float>(), L, D);
    return h;
}
"""

extension = load_inline(
    name="recurrence_v0",
    cpp_sources="torch::Tensor recurrence(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["recurrence"],
)


class ModelNew(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return extension.recurrence(a, b)
