# problem: selective_scan
"""Selective scan in C++ for the CPU: the projections in torch, the scan with its state in a small array.

Nothing of shape [B, L, D, N] is written. Threads share the (batch, channel) pairs; the loop over the 16 states is the
inner one, long enough for the compiler to vectorise everything in it but the exponential.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cpp_source = r"""
#include <cmath>

constexpr int STATES = 16;

// x, delta: [batch, L, D]; B, C: [batch, L, STATES]; A_log: [D, STATES]; skip: [D]. Returns [batch, L, D].
torch::Tensor selective_scan(torch::Tensor x, torch::Tensor delta, torch::Tensor B, torch::Tensor C,
                             torch::Tensor A_log, torch::Tensor skip) {
    for (const auto& tensor : {x, delta, B, C, A_log, skip}) {
        TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "every argument: a contiguous CPU tensor");
        TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, "every argument: float32");
    }
    TORCH_CHECK(x.dim() == 3 && delta.sizes() == x.sizes(), "x, delta: one shape [B, L, D]");
    const int64_t batch = x.size(0), L = x.size(1), D = x.size(2);
    TORCH_CHECK(A_log.dim() == 2 && A_log.size(0) == D && A_log.size(1) == STATES, "A_log: [D, 16]");
    TORCH_CHECK(B.dim() == 3 && B.size(0) == batch && B.size(1) == L && B.size(2) == STATES, "B: [B, L, 16]");
    TORCH_CHECK(C.sizes() == B.sizes(), "C: [B, L, 16]");
    TORCH_CHECK(skip.dim() == 1 && skip.size(0) == D, "skip: [D]");
    auto y = torch::empty_like(x);
    const float* px = x.data_ptr<float>();
    const float* pdelta = delta.data_ptr<float>();
    const float* pB = B.data_ptr<float>();
    const float* pC = C.data_ptr<float>();
    const float* pA_log = A_log.data_ptr<float>();
    const float* pskip = skip.data_ptr<float>();
    float* py = y.data_ptr<float>();

    #pragma omp parallel for schedule(static)
    for (int64_t work = 0; work < batch * D; ++work) {
        const int64_t channel = work % D;
        int64_t at_channel = work / D * L * D + channel;
        int64_t at_state = work / D * L * STATES;
        float A[STATES];
        float h[STATES] = {0.0f};
        for (int n = 0; n < STATES; ++n) A[n] = -std::exp(pA_log[channel * STATES + n]);
        for (int64_t t = 0; t < L; ++t, at_channel += D, at_state += STATES) {
            const float x_t = px[at_channel];
            const float delta_t = pdelta[at_channel];
            float sum = 0.0f;
            for (int n = 0; n < STATES; ++n) {
                h[n] = std::exp(delta_t * A[n]) * h[n] + x_t * (delta_t * pB[at_state + n]);
                sum += h[n] * pC[at_state + n];
            }
            py[at_channel] = sum + x_t * pskip[channel];
        }
    }
    return y;
}
"""

extension = load_inline(
    name="s6_cpu",
    cpp_sources=cpp_source,
    functions=["selective_scan"],
    extra_cflags=["-O3", "-fopenmp"],
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
