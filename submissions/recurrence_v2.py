# problem: linear_recurrence
"""Linear recurrence, third try: coalesced, and still far from the floor. Teaches counting bytes.

Hillis-Steele over the whole sequence at once, a kernel launch for each of the log2(L) = 12 doublings. Neighbouring
threads handle neighbouring channels, so that every access is coalesced; but each pass reads and writes all of a and b
in global memory, some 16 times the traffic that the problem needs.
"""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

// Joins every step's segment with the segment that ends `offset` steps before it.
__global__ void double_segments(const float* a_from, const float* b_from, float* a_to, float* b_to,
                                long long total, int L, int D, int offset) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int t = (int)(i / D % L);
    const float a = a_from[i];
    const float b = b_from[i];
    if (t >= offset) {
        const long long left = i - (long long)offset * D;
        a_to[i] = a * a_from[left];
        b_to[i] = a * b_from[left] + b;
    } else {
        a_to[i] = a;
        b_to[i] = b;
    }
}

torch::Tensor recurrence(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda() && b.is_cuda() && a.is_contiguous() && b.is_contiguous(), "a, b: contiguous CUDA tensors");
    TORCH_CHECK(a.dim() == 3 && a.sizes() == b.sizes(), "a, b: one shape [B, L, D]");
    TORCH_CHECK(a.scalar_type() == torch::kFloat32 && b.scalar_type() == torch::kFloat32, "a, b: float32");
    const c10::cuda::CUDAGuard guard(a.device());
    const int L = a.size(1), D = a.size(2);
    if (L <= 1 || b.numel() == 0) return b.clone();  // nothing to join; the output must be memory of its own

    const long long total = b.numel();
    const int threads = 256;
    const long long blocks = (total + threads - 1) / threads;
    // The inputs are only read: the first pass goes from them to one pair of buffers, the others to and fro.
    torch::Tensor a_buffers[2] = {torch::empty_like(a), torch::empty_like(a)};
    torch::Tensor b_buffers[2] = {torch::empty_like(b), torch::empty_like(b)};
    const float* a_from = a.data_ptr<float>();
    const float* b_from = b.data_ptr<float>();
    int into = 0;
    for (int offset = 1; offset < L; offset *= 2) {
        float* a_to = a_buffers[into].data_ptr<float>();
        float* b_to = b_buffers[into].data_ptr<float>();
        double_segments<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
            a_from, b_from, a_to, b_to, total, L, D, offset);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        a_from = a_to;
        b_from = b_to;
        into = 1 - into;
    }
    return b_buffers[1 - into];
}
"""

extension = load_inline(
    name="recurrence_v2",
    cpp_sources="torch::Tensor recurrence(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["recurrence"],
)


class ModelNew(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return extension.recurrence(a, b)
