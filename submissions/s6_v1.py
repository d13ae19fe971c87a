# problem: selective_scan
"""Selective scan, first try: does not compile. Teaches the two mistakes that a first submission makes most.

The kernel's signature has two parameters named B, the input matrix and the batch size; and cpp_sources declares
nothing, so the binding that load_inline writes for functions=["selective_scan"] does not know the function.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int STATES = 16;
constexpr int CHANNELS = 16;  // of one block

// x, delta, y: [batch, L, D]; B, C: [batch, L, STATES]; A_log: [D, STATES]; skip: [D].
__global__ void scan(const float* x, const float* delta, const float* B, const float* C, const float* A_log,
                     const float* skip, float* y, int B, int L, int D) {
    const int state = threadIdx.x % STATES;
    const int wanted = blockIdx.x * CHANNELS + threadIdx.x / STATES;
    // The lanes of a channel past the end walk the last one again: a shuffle needs its whole warp.
    const int channel = min(wanted, D - 1);
    const bool writes = wanted < D && state == 0;
    const float A = -expf(A_log[channel * STATES + state]);
    const float D_skip = skip[channel];

    long long at_channel = (long long)blockIdx.y * L * D + channel;
    long long at_state = (long long)blockIdx.y * L * STATES + state;
    float h = 0.0f;
    for (int t = 0; t < L; ++t, at_channel += D, at_state += STATES) {
        const float x_t = x[at_channel];
        const float delta_t = delta[at_channel];
        h = expf(delta_t * A) * h + x_t * (delta_t * B[at_state]);
        float sum = h * C[at_state];
        for (int lane = STATES / 2; lane > 0; lane /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, lane, STATES);
        }
        if (writes) y[at_channel] = sum + x_t * D_skip;
    }
}

torch::Tensor selective_scan(torch::Tensor x, torch::Tensor delta, torch::Tensor B, torch::Tensor C,
                             torch::Tensor A_log, torch::Tensor skip) {
    for (const auto& tensor : {x, delta, B, C, A_log, skip}) {
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "every argument: a contiguous CUDA tensor");
        TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, "every argument: float32");
    }
    TORCH_CHECK(x.dim() == 3 && delta.sizes() == x.sizes(), "x, delta: one shape [B, L, D]");
    const int batch = x.size(0), L = x.size(1), D = x.size(2);
    TORCH_CHECK(A_log.dim() == 2 && A_log.size(0) == D && A_log.size(1) == STATES, "A_log: [D, 16]");
    TORCH_CHECK(B.dim() == 3 && B.size(0) == batch && B.size(1) == L && B.size(2) == STATES, "B: [B, L, 16]");
    TORCH_CHECK(C.sizes() == B.sizes(), "C: [B, L, 16]");
    TORCH_CHECK(skip.dim() == 1 && skip.size(0) == D, "skip: [D]");
    const c10::cuda::CUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    if (y.numel() == 0) return y;
    const dim3 grid((D + CHANNELS - 1) / CHANNELS, batch);
    scan<<<grid, CHANNELS * STATES, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), delta.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(),
        A_log.data_ptr<float>(), skip.data_ptr<float>(), y.data_ptr<float>(), batch, L, D);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

extension = load_inline(
    name="s6_v1",
    cpp_sources="",
    cuda_sources=cuda_source,
    functions=["selective_scan"],
)


class ModelNew(nn.Module):
    def __init__(self, d_model, d_state):
        super().__init__()
        self.A_log = nn.Parameter(torch.randn(d_model, d_state))
        self.proj_B = nn.Linear(d_model, d_state, bias=False)
        self.proj_C = nn.Linear(d_model, d_state, bias=False)
        self.proj_delta = nn.Linear(d_model, d_model)
        self.D = nn.Parameter(torch.ones(d_model))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        delta = F.softplus(self.proj_delta(x))
        return extension.selective_scan(x, delta, self.proj_B(x), self.proj_C(x), self.A_log, self.D)
