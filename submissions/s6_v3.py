# problem: selective_scan
"""Selective scan, third try: two kernels for the whole module. Teaches what is left when memory is not the limit.

project     x times the three projections' weights in one product, on the tensor cores. Tf32's 11 bits are too few for
            fp32, but v = high + low holds 22, and x_high * w_high + x_high * w_low + x_low * w_high is as accurate as
            fp32. Tensor cores round their sums towards zero, so they sum 32 products at a time and ordinary additions
            join these. What leaves is delta, after softplus, and B and C side by side.
scan        The 134 million exponentials are the floor, 16 a clock on each multiprocessor, so each is taken once: no
            chunks of a sequence in parallel, which would take them twice. Eight lanes share a channel, two states each,
            and walk the sequence in chunks of 32 steps, while the copies of the next two chunks are under way. Steps
            differ in nothing but h, so the exponentials of several steps overlap. The sum over lanes is taken for eight
            steps at once: seven shuffles, after which each lane holds one step's output.

exp(delta * A) is exp2(delta * (A * log2 e)) with the factor in brackets made once: a multiplication, an instruction.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_pipeline.h>
#include <stdint.h>

constexpr int STATES = 16;

// ---- Instructions that CUDA C++ has no name for ----

// 2^x with a relative error of 2^-22; exp2f adds steps for results below 1e-38.
__device__ float exp2_fast(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// sums += a * b in tf32, a: [16, 8], b: [8, 8], by a warp. Lane l holds, with g = l / 4 and c = l % 4: of a the places
// (g, c), (g + 8, c), (g, c + 4), (g + 8, c + 4); of b (c, g), (c + 4, g); of sums (g, 2c), (g, 2c + 1), (g + 8, 2c)
// and (g + 8, 2c + 1).
__device__ void multiply(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- End of instructions ----

// Starts to copy PIECE floats; 4 of them need 16-byte addresses.
template <int PIECE>
__device__ void start_copy(float* to, const float* from) {
    __pipeline_memcpy_async(to, from, PIECE * sizeof(float));
}

// ---- Projections ----

constexpr int TILE_ROWS = 128;    // of a block: 4 warps of 32
constexpr int TILE_COLUMNS = 96;  // 3 warps of 32; 288 columns are three of these
constexpr int DEPTH = 32;         // of a stage, and of the sums that the tensor cores take
constexpr int STRIDE = DEPTH + 4; // floats from row to row: the rows that a warp reads lie in different banks
constexpr int STAGES = 4;
constexpr int WARP_ROWS = 2;      // tiles of 16
constexpr int WARP_COLUMNS = 4;   // tiles of 8
constexpr int PROJECT_THREADS = 384;

struct Stage {
    float x[TILE_ROWS][STRIDE];
    float w[TILE_COLUMNS][STRIDE];
};

struct Weights {
    const float* delta;       // [D, D]
    const float* delta_bias;  // [D]
    const float* B;           // [STATES, D]
    const float* C;           // [STATES, D]
};

// The row of weights that makes a column of the product: delta's, then those of B and of C.
__device__ const float* weight_row(const Weights& weights, int column, int D) {
    if (column < D) return weights.delta + (long long)column * D;
    if (column < D + STATES) return weights.B + (long long)(column - D) * D;
    return weights.C + (long long)(column - D - STATES) * D;
}

// x: the block's first row, of `rows` that are left. Zeros past the ends: they add nothing to a sum.
template <int PIECE>
__device__ void start_stage(Stage& stage, const float* x, int rows, const Weights& weights, int first_column, int depth,
                            int D) {
    constexpr int PIECES = DEPTH / PIECE;  // of a row
    constexpr int LINES = PROJECT_THREADS / PIECES;
    const int at = threadIdx.x % PIECES * PIECE;
    const bool inside = depth + at < D;
#pragma unroll 1
    for (int line = threadIdx.x / PIECES; line < TILE_ROWS; line += LINES) {
        if (inside && line < rows) {
            start_copy<PIECE>(&stage.x[line][at], x + line * D + depth + at);
        } else {
            for (int j = 0; j < PIECE; ++j) stage.x[line][at + j] = 0.0f;
        }
    }
#pragma unroll 1
    for (int line = threadIdx.x / PIECES; line < TILE_COLUMNS; line += LINES) {
        if (inside && first_column + line < D + 2 * STATES) {
            start_copy<PIECE>(&stage.w[line][at], weight_row(weights, first_column + line, D) + depth + at);
        } else {
            for (int j = 0; j < PIECE; ++j) stage.w[line][at + j] = 0.0f;
        }
    }
    __pipeline_commit();
}

// value = high + low, up to a rounding of 2^-22: 11 bits each, which is what the tensor cores look at.
__device__ void split(float value, uint32_t& high, uint32_t& low) {
    high = __float_as_uint(value) & 0xffffe000u;
    low = (__float_as_uint(value - __uint_as_float(high)) + 0x1000u) & 0xffffe000u;
}

__device__ float softplus(float value) {
    return value > 20.0f ? value : log1pf(expf(value));
}

// x: [rows, D]; delta: [rows, D]; BC: [rows, 2 * STATES], B before C. A block for each tile of the product.
template <int PIECE>
__global__ void __launch_bounds__(PROJECT_THREADS)
project(const float* x, Weights weights, float* delta, float* BC, long long rows, int D) {
    extern __shared__ float4 shared[];
    Stage* stages = reinterpret_cast<Stage*>(shared);
    const int column_tiles = (D + 2 * STATES + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const long long first_row = (long long)(blockIdx.x / column_tiles) * TILE_ROWS;
    const int first_column = blockIdx.x % column_tiles * TILE_COLUMNS;
    const int steps = (D + DEPTH - 1) / DEPTH;
    const int rows_left = (int)min(rows - first_row, (long long)TILE_ROWS);
    const float* x_tile = x + first_row * D;
    const int group = threadIdx.x % 32 / 4;
    const int lane = threadIdx.x % 4;
    const int warp_row = threadIdx.x / 32 / 3 * WARP_ROWS * 16 + group;
    const int warp_column = threadIdx.x / 32 % 3 * WARP_COLUMNS * 8;

    for (int step = 0; step < STAGES - 1; ++step) {
        start_stage<PIECE>(stages[step], x_tile, rows_left, weights, first_column, step * DEPTH, D);
    }
    float total[WARP_ROWS][WARP_COLUMNS][4] = {};
    for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // everybody's copies are there, and everybody is done with the stage before
        start_stage<PIECE>(stages[(step + STAGES - 1) % STAGES], x_tile, rows_left, weights, first_column,
                           (step + STAGES - 1) * DEPTH, D);
        const Stage& stage = stages[step % STAGES];

        float sums[WARP_ROWS][WARP_COLUMNS][4] = {};
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            uint32_t x_high[WARP_ROWS][4], x_low[WARP_ROWS][4];
#pragma unroll
            for (int i = 0; i < WARP_ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    split(stage.x[warp_row + 16 * i + j % 2 * 8][k + lane + j / 2 * 4], x_high[i][j], x_low[i][j]);
                }
            }
#pragma unroll
            for (int n = 0; n < WARP_COLUMNS; ++n) {
                uint32_t w_high[2], w_low[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    split(stage.w[warp_column + 8 * n + group][k + lane + 4 * j], w_high[j], w_low[j]);
                }
#pragma unroll
                for (int i = 0; i < WARP_ROWS; ++i) {
                    multiply(sums[i][n], x_low[i], w_high);
                    multiply(sums[i][n], x_high[i], w_low);
                    multiply(sums[i][n], x_high[i], w_high);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < WARP_ROWS; ++i)
#pragma unroll
            for (int n = 0; n < WARP_COLUMNS; ++n)
#pragma unroll
                for (int j = 0; j < 4; ++j) total[i][n][j] += sums[i][n][j];
    }

#pragma unroll
    for (int i = 0; i < WARP_ROWS; ++i)
#pragma unroll
        for (int n = 0; n < WARP_COLUMNS; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int line = warp_row + 16 * i + j / 2 * 8;
                const long long row = first_row + line;
                const int column = first_column + warp_column + 8 * n + 2 * lane + j % 2;
                if (line >= rows_left) continue;
                if (column < D) {
                    delta[row * D + column] = softplus(total[i][n][j] + weights.delta_bias[column]);
                } else if (column < D + 2 * STATES) {
                    BC[row * 2 * STATES + column - D] = total[i][n][j];
                }
            }
}

// ---- Scan ----

constexpr int CHANNELS = 32;              // of a block
constexpr int LANES = 8;                  // of a channel
constexpr int LANE_STATES = STATES / LANES;
constexpr int SCAN_THREADS = CHANNELS * LANES;
constexpr int CHUNK = 32;                 // steps
constexpr int SLOTS = 3;                  // chunks in shared memory: one that is worked on, the others on their way

struct alignas(16) Chunk {
    float x[CHUNK][CHANNELS];
    float delta[CHUNK][CHANNELS];
    float BC[CHUNK][2 * STATES];
};

// x, delta: at step 0 and the block's first channel; BC: at step 0. What lies past the ends is left as it is: no
// output comes from it.
template <int PIECE>
__device__ void start_chunk(Chunk& chunk, const float* x, const float* delta, const float* BC, int first, int L,
                            int channels, int D) {
    constexpr int PIECES = CHANNELS / PIECE;
    for (int i = threadIdx.x; i < CHUNK * PIECES; i += SCAN_THREADS) {
        const int step = i / PIECES;
        const int at = i % PIECES * PIECE;
        if (first + step < L && at < channels) {
            const long long from = (long long)(first + step) * D + at;
            start_copy<PIECE>(&chunk.x[step][at], x + from);
            start_copy<PIECE>(&chunk.delta[step][at], delta + from);
        }
    }
    for (int i = threadIdx.x; i < CHUNK * 2 * STATES / 4; i += SCAN_THREADS) {
        const int step = i / (2 * STATES / 4);
        const int at = i % (2 * STATES / 4) * 4;
        if (first + step < L) start_copy<4>(&chunk.BC[step][at], BC + (long long)(first + step) * 2 * STATES + at);
    }
    __pipeline_commit();
}

// x, delta, y: [batch, L, D]; BC: [batch, L, 2 * STATES]; A_log: [D, STATES]; skip: [D].
template <int PIECE>
__global__ void __launch_bounds__(SCAN_THREADS)
scan(const float* x, const float* delta, const float* BC, const float* A_log, const float* skip, float* y, int L,
     int D) {
    __shared__ Chunk chunks[SLOTS];
    const int tiles = (D + CHANNELS - 1) / CHANNELS;
    const int first_channel = blockIdx.x % tiles * CHANNELS;
    const int channels = D - first_channel;  // more than CHANNELS, where other blocks follow
    const long long batch = blockIdx.x / tiles;
    const int mine = threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    const int first_state = lane * LANE_STATES;
    const int channel = min(first_channel + mine, D - 1);
    x += batch * L * D + first_channel;
    delta += batch * L * D + first_channel;
    y += batch * L * D + first_channel;
    BC += batch * L * 2 * STATES;

    float A[LANE_STATES], h[LANE_STATES];
#pragma unroll
    for (int n = 0; n < LANE_STATES; ++n) {
        A[n] = -expf(A_log[channel * STATES + first_state + n]) * 1.4426950408889634f;
        h[n] = 0.0f;
    }
    const float D_skip = skip[channel];

    for (int slot = 0; slot < SLOTS - 1; ++slot) {
        start_chunk<PIECE>(chunks[slot], x, delta, BC, slot * CHUNK, L, channels, D);
    }
    for (int first = 0, slot = 0; first < L; first += CHUNK, slot = (slot + 1) % SLOTS) {
        __pipeline_wait_prior(SLOTS - 2);
        __syncthreads();  // everybody's copies are there, and everybody is done with the chunk before
        start_chunk<PIECE>(chunks[(slot + SLOTS - 1) % SLOTS], x, delta, BC, first + (SLOTS - 1) * CHUNK, L, channels,
                           D);
        const Chunk& chunk = chunks[slot];
#pragma unroll 4
        for (int start = 0; start < CHUNK; start += LANES) {
            float out[LANES];
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                const int t = start + i;
                const float delta_t = chunk.delta[t][mine];
                const float input = delta_t * chunk.x[t][mine];
                out[i] = 0.0f;
#pragma unroll
                for (int n = 0; n < LANE_STATES; ++n) {
                    h[n] = fmaf(exp2_fast(delta_t * A[n]), h[n], input * chunk.BC[t][first_state + n]);
                    out[i] = fmaf(h[n], chunk.BC[t][STATES + first_state + n], out[i]);
                }
            }
            // Each time a lane keeps one half of its steps and hands the other to the lane that keeps that. At the end
            // lane i has the sum of step start + i.
#pragma unroll
            for (int half = LANES / 2; half > 0; half /= 2) {
                const bool upper = lane & half;
#pragma unroll
                for (int i = 0; i < half; ++i) {
                    const float kept = upper ? out[i + half] : out[i];
                    const float given = upper ? out[i] : out[i + half];
                    out[i] = kept + __shfl_xor_sync(0xffffffffu, given, half);
                }
            }
            const int t = start + lane;
            if (first + t < L && mine < channels) {
                y[(long long)(first + t) * D + mine] = fmaf(chunk.x[t][mine], D_skip, out[0]);
            }
        }
    }
}

// ---- Host side ----

torch::Tensor selective_scan(torch::Tensor x, torch::Tensor A_log, torch::Tensor weight_B, torch::Tensor weight_C,
                             torch::Tensor weight_delta, torch::Tensor bias_delta, torch::Tensor skip) {
    for (const auto& tensor : {x, A_log, weight_B, weight_C, weight_delta, bias_delta, skip}) {
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "every argument: a contiguous CUDA tensor");
        TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, "every argument: float32");
    }
    TORCH_CHECK(x.dim() == 3, "x: [B, L, D]");
    const int batch = x.size(0), L = x.size(1), D = x.size(2);
    TORCH_CHECK(A_log.dim() == 2 && A_log.size(0) == D && A_log.size(1) == STATES, "A_log: [D, 16]");
    TORCH_CHECK(weight_B.sizes() == torch::IntArrayRef({STATES, D}), "weight_B: [16, D]");
    TORCH_CHECK(weight_C.sizes() == torch::IntArrayRef({STATES, D}), "weight_C: [16, D]");
    TORCH_CHECK(weight_delta.sizes() == torch::IntArrayRef({D, D}), "weight_delta: [D, D]");
    TORCH_CHECK(bias_delta.numel() == D && skip.numel() == D, "bias_delta, skip: [D]");
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    if (y.numel() == 0) return y;
    auto delta = torch::empty_like(x);
    auto BC = torch::empty({batch, L, 2 * STATES}, x.options());

    const long long rows = (long long)batch * L;
    const Weights weights{weight_delta.data_ptr<float>(), bias_delta.data_ptr<float>(), weight_B.data_ptr<float>(),
                          weight_C.data_ptr<float>()};
    // Four floats at a time where every row starts at a multiple of 16 bytes.
    bool aligned = D % 4 == 0;
    for (const auto& tensor : {x, weight_B, weight_C, weight_delta}) {
        aligned = aligned && reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16 == 0;
    }
    const auto project_kernel = aligned ? project<4> : project<1>;
    const auto scan_kernel = aligned ? scan<4> : scan<1>;
    const int bytes = STAGES * sizeof(Stage);  // above 48 KB a kernel has to be told
    C10_CUDA_CHECK(cudaFuncSetAttribute(project_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const long long row_tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const int column_tiles = (D + 2 * STATES + TILE_COLUMNS - 1) / TILE_COLUMNS;
    project_kernel<<<row_tiles * column_tiles, PROJECT_THREADS, bytes, stream>>>(
        x.data_ptr<float>(), weights, delta.data_ptr<float>(), BC.data_ptr<float>(), rows, D);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    scan_kernel<<<(long long)batch * ((D + CHANNELS - 1) / CHANNELS), SCAN_THREADS, 0, stream>>>(
        x.data_ptr<float>(), delta.data_ptr<float>(), BC.data_ptr<float>(), A_log.data_ptr<float>(),
        skip.data_ptr<float>(), y.data_ptr<float>(), L, D);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

extension = load_inline(
    name="s6_v3",
    cpp_sources=(
        "torch::Tensor selective_scan(torch::Tensor x, torch::Tensor A_log, torch::Tensor weight_B,"
        "                             torch::Tensor weight_C, torch::Tensor weight_delta, torch::Tensor bias_delta,"
        "                             torch::Tensor skip);"
    ),
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
        return extension.selective_scan(
            x,
            self.A_log,
            self.proj_B.weight,
            self.proj_C.weight,
            self.proj_delta.weight,
            self.proj_delta.bias,
            self.D,
        )
