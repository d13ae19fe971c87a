# problem: linear_recurrence
"""Linear recurrence in one pass: every element is read once and written once. Teaches the associative rule.

A run of steps does one thing to the state before it: h -> product * h + own. Two runs in a row do
(p1, s1).(p2, s2) = (p1 * p2, p2 * s1 + s2), and so a sequence can be cut anywhere. Here a block keeps 64 channels of
one batch and walks the sequence in chunks of 64 steps, 8 for each of its 8 warps:

    1. each warp finds what its 8 steps do to a state, without knowing the state;
    2. the 8 results meet in shared memory, and every warp works out the state that reaches its own steps;
    3. it walks them again from there, from registers, and writes.

The arithmetic is nothing beside the memory: three operations a step. What counts is that loads are always under way: at
4.3 TB/s, a latency of a microsecond is 4 MB, 33 KB for each of 132 multiprocessors. Asynchronous copies keep the next
three chunks, 96 KB a block, on their way to shared memory. Loads into registers would do as well, but the compiler
moves them down to where a register falls free.
"""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_pipeline.h>

constexpr int WARPS = 8;
constexpr int STEPS = 8;  // of one warp in a chunk
constexpr int CHUNK = WARPS * STEPS;
constexpr int SLOTS = 4;  // chunks in shared memory: one that is worked on, the others on their way

// Neighbouring channels of one lane, moved by one instruction.
template <int WIDTH>
struct alignas(4 * WIDTH) Channels {
    float at[WIDTH];
};

// Each thread copies what it will use itself, so no barrier is needed between a copy and its use.
template <int WIDTH>
struct Slot {
    Channels<WIDTH> a[STEPS][WARPS * 32];
    Channels<WIDTH> b[STEPS][WARPS * 32];
};

// Starts to copy this thread's steps from `first` on; a, b: its channels at step 0. Steps past the end are left out.
template <int WIDTH>
__device__ void start_copies(Slot<WIDTH>& slot, const float* a, const float* b, int first, int end, int D) {
    long long from = (long long)first * D;
#pragma unroll
    for (int s = 0; s < STEPS; ++s, from += D) {
        if (first + s < end) {
            __pipeline_memcpy_async(&slot.a[s][threadIdx.x], a + from, sizeof(Channels<WIDTH>));
            __pipeline_memcpy_async(&slot.b[s][threadIdx.x], b + from, sizeof(Channels<WIDTH>));
        }
    }
    __pipeline_commit();
}

// a, b, h: [batch, L, D], D a multiple of WIDTH. A block for each batch and 32 * WIDTH channels.
template <int WIDTH>
__global__ void __launch_bounds__(WARPS * 32)
scan(const float* a, const float* b, float* h, int L, int D) {
    extern __shared__ float4 shared[];
    Slot<WIDTH>* slots = reinterpret_cast<Slot<WIDTH>*>(shared);
    // What the steps of a warp do to a state. Two sets in turn, so that one barrier a chunk is enough: who writes a set
    // again has passed the barrier of the chunk in between, and so has everybody who read it.
    __shared__ Channels<WIDTH> products[2][WARPS][32];
    __shared__ Channels<WIDTH> owns[2][WARPS][32];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int tiles = (D + 32 * WIDTH - 1) / (32 * WIDTH);
    const int channel = ((int)(blockIdx.x % tiles) * 32 + lane) * WIDTH;
    const long long base = (long long)(blockIdx.x / tiles) * L * D + channel;
    const int end = channel < D ? L : 0;  // a lane past the last channel has no steps
    a += base;
    b += base;
    h += base;

    Channels<WIDTH> state;  // before the chunk, the same in every warp
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) state.at[c] = 0.0f;
#pragma unroll
    for (int slot = 0; slot < SLOTS - 1; ++slot) {
        start_copies(slots[slot], a, b, slot * CHUNK + warp * STEPS, end, D);
    }

    for (int start = 0, slot = 0, set = 0; start < L; start += CHUNK, set = 1 - set) {
        const int first = start + warp * STEPS;
        // Into the slot that was used up last: the one before this.
        start_copies(slots[(slot + SLOTS - 1) % SLOTS], a, b, first + (SLOTS - 1) * CHUNK, end, D);
        __pipeline_wait_prior(SLOTS - 1);

        Channels<WIDTH> a_steps[STEPS], b_steps[STEPS], product, own;
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            a_steps[s] = slots[slot].a[s][threadIdx.x];
            b_steps[s] = slots[slot].b[s][threadIdx.x];
#pragma unroll
            for (int c = 0; c < WIDTH; ++c) {
                if (first + s >= end) {  // a step that does nothing to a state: h -> 1 * h + 0
                    a_steps[s].at[c] = 1.0f;
                    b_steps[s].at[c] = 0.0f;
                }
                own.at[c] = s == 0 ? b_steps[s].at[c] : fmaf(a_steps[s].at[c], own.at[c], b_steps[s].at[c]);
                product.at[c] = s == 0 ? a_steps[s].at[c] : product.at[c] * a_steps[s].at[c];
            }
        }
        slot = (slot + 1) % SLOTS;
        products[set][warp][lane] = product;
        owns[set][warp][lane] = own;
        __syncthreads();

        // Over all warps to the state before the next chunk; on the way past this warp.
        Channels<WIDTH> here = state;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            if (w == warp) here = state;
            product = products[set][w][lane];
            own = owns[set][w][lane];
#pragma unroll
            for (int c = 0; c < WIDTH; ++c) state.at[c] = fmaf(product.at[c], state.at[c], own.at[c]);
        }

        float* step = h + (long long)first * D;
#pragma unroll
        for (int s = 0; s < STEPS; ++s, step += D) {
#pragma unroll
            for (int c = 0; c < WIDTH; ++c) here.at[c] = fmaf(a_steps[s].at[c], here.at[c], b_steps[s].at[c]);
            if (first + s < end) *reinterpret_cast<Channels<WIDTH>*>(step) = here;
        }
    }
}

// ---- Host side ----

template <int WIDTH>
void launch_scan(const float* a, const float* b, float* h, int B, int L, int D, cudaStream_t stream) {
    const int bytes = SLOTS * sizeof(Slot<WIDTH>);  // above 48 KB a kernel has to be told
    cudaFuncSetAttribute(scan<WIDTH>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const long long blocks = (long long)B * ((D + 32 * WIDTH - 1) / (32 * WIDTH));
    scan<WIDTH><<<blocks, WARPS * 32, bytes, stream>>>(a, b, h, L, D);
}

torch::Tensor recurrence(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda() && b.is_cuda() && a.is_contiguous() && b.is_contiguous(), "a, b: contiguous CUDA tensors");
    TORCH_CHECK(a.dim() == 3 && a.sizes() == b.sizes(), "a, b: one shape [B, L, D]");
    TORCH_CHECK(a.scalar_type() == torch::kFloat32 && b.scalar_type() == torch::kFloat32, "a, b: float32");
    const c10::cuda::CUDAGuard guard(a.device());
    auto h = torch::empty_like(b);
    if (h.numel() == 0) return h;
    const int B = a.size(0), L = a.size(1), D = a.size(2);
    const float* pa = a.data_ptr<float>();
    const float* pb = b.data_ptr<float>();
    float* ph = h.data_ptr<float>();
    const auto stream = c10::cuda::getCurrentCUDAStream();
    // Two channels a lane need 8-byte addresses: an even D, and tensors that do not start in the middle of a pair.
    const auto addresses = reinterpret_cast<uintptr_t>(pa) | reinterpret_cast<uintptr_t>(pb);
    if (D % 2 == 0 && addresses % 8 == 0) {
        launch_scan<2>(pa, pb, ph, B, L, D, stream);
    } else {
        launch_scan<1>(pa, pb, ph, B, L, D, stream);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return h;
}
"""

extension = load_inline(
    name="recurrence_best",
    cpp_sources="torch::Tensor recurrence(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["recurrence"],
)


class ModelNew(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return extension.recurrence(a, b)
