# problem: gemm_bn_scale_softmax
"""GEMM, batch norm, scale, softmax at fp32 accuracy on the tensor cores. Teaches the split product.

Plain fp32 ends at 67 TFLOP/s, and the library's product is near that already. The tensor cores do 989 TFLOP/s in fp16,
whose 11 bits are too few; but two halves hold 22: v = high + low with high = fp16(v), low = fp16(v - high). Then

    x * w = x_high * w_high + x_high * w_low + x_low * w_high        (x_low * w_low is below the last bit)

costs three products and is as accurate as fp32. Two things have to be right for that:

    range       fp16 ends at 65504 and loses bits below 6e-5. Each row of x and of W is scaled by a power of two, which
                is exact, so that its largest element is near 2^15; the product is scaled back at the end.
    sums        tensor cores round each sum towards zero. Over 8192 products that adds up to ten times fp32's error
                (benchmarks/split_product.py), so they sum 64 products at a time from zero, and ordinary additions
                join these.

split_rows writes the halves as the tiles that the product wants, zeros past the edges: a stage of the pipeline is then
two bulk copies of 32 KB, whatever the sizes. The batch norm takes each column's mean off, so the layer's bias moves
nothing but the running mean.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int TILE = 128;                      // rows and columns of a block's part of the product
constexpr int DEPTH = 64;                      // of a stage: 64 halves are the 128 bytes that the swizzle works on
constexpr int HALVES = TILE * DEPTH;           // of one operand's tile, high or low
constexpr int STAGES = 3;                      // of 64 KB
constexpr int STAGE_BYTES = 4 * HALVES * 2;    // x_high, x_low, w_high, w_low
constexpr int SHARED = STAGES * STAGE_BYTES + 1024;  // the tiles start at a multiple of 1024 bytes
constexpr int CONSUMERS = 256;                 // two warpgroups of 64 rows each; a third one copies
constexpr int THREADS = 512;                   // of all kernels but the product

// ---- Instructions that CUDA C++ has no name for ----

__device__ uint32_t shared_address(const void* pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

__device__ void barrier_init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes the barriers visible to the copy engine; a __syncthreads() after it, to the block.
__device__ void barrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void barrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and lets the barrier wait for so many bytes of copies as well.
__device__ void barrier_expect(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Until the phase of this parity, 0 for the first one, is over.
__device__ void barrier_wait(uint64_t* barrier, int parity) {
    uint32_t done = 0;
    while (!done) {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    }
}

__device__ void copy_bulk(void* to, const void* from, int bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

__device__ void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Until the products that were begun are there. The sums count as written here, or the compiler might use them before.
__device__ void products_end(float (&sums)[64]) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(sums[i]));
}

// sums (+)= a * b^T, a: [64, 16], b: [128, 16], by a warpgroup. Lane l of its warp w holds, for j below 16, of the rows
// 16 * w + l / 4 (sums[4 * j], sums[4 * j + 1]) and 8 below it (the next two) the columns 8 * j + 2 * (l % 4) and the
// one after it.
__device__ void multiply(float (&sums)[64], uint64_t a, uint64_t b, int add) {
#define SUMS(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
        "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0; }"
        : SUMS(0), SUMS(4), SUMS(8), SUMS(12), SUMS(16), SUMS(20), SUMS(24), SUMS(28), SUMS(32), SUMS(36), SUMS(40),
          SUMS(44), SUMS(48), SUMS(52), SUMS(56), SUMS(60)
        : "l"(a), "l"(b), "r"(add));
#undef SUMS
}

// ---- End of instructions ----

template <typename Combine>
__device__ float reduce_block(float value, float* shared, Combine combine) {
    for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, lane));
    __syncthreads();  // the values of an earlier reduction have been read
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) value = combine(value, shared[warp]);
    return value;
}

struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Eight neighbours of a row, zeros past its end.
__device__ void load_eight(float (&values)[8], const float* row, int first, int columns, bool aligned) {
    if (aligned && first + 8 <= columns) {
        const float4 left = *reinterpret_cast<const float4*>(row + first);
        const float4 right = *reinterpret_cast<const float4*>(row + first + 4);
        values[0] = left.x, values[1] = left.y, values[2] = left.z, values[3] = left.w;
        values[4] = right.x, values[5] = right.y, values[6] = right.z, values[7] = right.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = first + i < columns ? row[first + i] : 0.0f;
}

// Splits a row for each block. matrix: [rows, columns]; tiles: [row tile][depth tile][high, low][TILE][DEPTH] halves,
// with the eight 16-byte pieces of a row swapped as the tensor cores read them, piece p at p ^ (row % 8): eight rows of
// one piece then lie in different banks. back: what the row's products are to be multiplied by.
__global__ void split_rows(const float* matrix, __half* tiles, float* back, int rows, int columns) {
    __shared__ float shared[THREADS / 32];
    const int row = blockIdx.x;
    const int depth_tiles = (columns + DEPTH - 1) / DEPTH;
    const float* values = matrix + (long long)row * columns;
    const int length = row < rows ? columns : 0;  // rows up to the end of the last tile are zeros
    const bool aligned = columns % 4 == 0 && reinterpret_cast<uintptr_t>(matrix) % 16 == 0;

    float largest = 0.0f;
    float eight[8];
    for (int first = threadIdx.x * 8; first < length; first += THREADS * 8) {
        load_eight(eight, values, first, length, aligned);
#pragma unroll
        for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(eight[i]));
    }
    largest = reduce_block(largest, shared, Max());
    int exponent = 0;
    frexpf(largest, &exponent);  // largest < 2^exponent
    exponent = min(max(15 - exponent, -120), 120);
    const float scale = ldexpf(1.0f, exponent);
    if (threadIdx.x == 0 && row < rows) back[row] = ldexpf(1.0f, -exponent);

    for (int first = threadIdx.x * 8; first < depth_tiles * DEPTH; first += THREADS * 8) {
        load_eight(eight, values, first, length, aligned);
        alignas(16) __half high[8], low[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float value = eight[i] * scale;
            high[i] = __float2half_rn(value);
            low[i] = __float2half_rn(value - __half2float(high[i]));
        }
        const int piece = first % DEPTH / 8;
        const long long tile = (long long)(row / TILE) * depth_tiles + first / DEPTH;
        __half* to = tiles + tile * 2 * HALVES + row % TILE * DEPTH + (piece ^ (row % 8)) * 8;
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<uint4*>(high);
        *reinterpret_cast<uint4*>(to + HALVES) = *reinterpret_cast<uint4*>(low);
    }
}

// How the tensor cores find a tile: its address, 1024 bytes from eight rows to the next eight, 128-byte swizzle.
__device__ uint64_t describe(const __half* tile) {
    return (uint64_t)(shared_address(tile) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

// z = x * w^T without the layer's bias. x, w: the tiles of split_rows; z: [M, N]. A block for each tile of z.
__global__ void __launch_bounds__(CONSUMERS + 128, 1)
product(const __half* x, const __half* w, const float* x_back, const float* w_back, float* z, int M, int N,
        int depth_tiles) {
    extern __shared__ uint8_t dynamic[];
    __half* tiles = reinterpret_cast<__half*>(dynamic + (1024 - shared_address(dynamic) % 1024) % 1024);
    __shared__ uint64_t filled[STAGES], emptied[STAGES];
    // Neighbouring blocks share their tile of w, the larger operand: it comes from memory once, x stays in the L2.
    const int row_tiles = (M + TILE - 1) / TILE;
    const int row_tile = blockIdx.x % row_tiles;
    const int column_tile = blockIdx.x / row_tiles;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&filled[stage], 1);
            barrier_init(&emptied[stage], CONSUMERS / 32);
        }
        barrier_init_done();
    }
    __syncthreads();

    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x > CONSUMERS) return;
        const __half* x_tile = x + (long long)row_tile * depth_tiles * 2 * HALVES;
        const __half* w_tile = w + (long long)column_tile * depth_tiles * 2 * HALVES;
        for (int step = 0; step < depth_tiles; ++step) {
            const int stage = step % STAGES;
            __half* to = tiles + stage * 4 * HALVES;
            // The first round finds every stage empty: the phase before the first counts as over.
            barrier_wait(&emptied[stage], (step / STAGES + 1) % 2);
            barrier_expect(&filled[stage], STAGE_BYTES);
            copy_bulk(to, x_tile + (long long)step * 2 * HALVES, STAGE_BYTES / 2, &filled[stage]);
            copy_bulk(to + 2 * HALVES, w_tile + (long long)step * 2 * HALVES, STAGE_BYTES / 2, &filled[stage]);
        }
        return;
    }

    const int group = threadIdx.x / 128;  // rows 64 * group to 64 * group + 63 of the tile
    float total[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) total[i] = 0.0f;
    for (int step = 0; step < depth_tiles; ++step) {
        const int stage = step % STAGES;
        const __half* x_high = tiles + stage * 4 * HALVES + group * 64 * DEPTH;
        const __half* w_high = tiles + stage * 4 * HALVES + 2 * HALVES;
        const uint64_t xh = describe(x_high), xl = describe(x_high + HALVES);
        const uint64_t wh = describe(w_high), wl = describe(w_high + HALVES);
        barrier_wait(&filled[stage], step / STAGES % 2);
        float sums[64];
        products_begin();
        // The small products first, while the sums are small. 16 halves on are 32 bytes on, 2 in a descriptor.
#pragma unroll
        for (int k = 0; k < DEPTH / 16; ++k) {
            multiply(sums, xl + 2 * k, wh + 2 * k, k > 0);
            multiply(sums, xh + 2 * k, wl + 2 * k, 1);
        }
#pragma unroll
        for (int k = 0; k < DEPTH / 16; ++k) multiply(sums, xh + 2 * k, wh + 2 * k, 1);
        products_end(sums);
        if (threadIdx.x % 32 == 0) barrier_arrive(&emptied[stage]);
#pragma unroll
        for (int i = 0; i < 64; ++i) total[i] += sums[i];
    }

    const int lane = threadIdx.x % 32;
    const int row = row_tile * TILE + threadIdx.x / 32 * 16 + lane / 4;
    const int column = column_tile * TILE + lane % 4 * 2;
#pragma unroll
    for (int below = 0; below < 2; ++below) {
        const int m = row + 8 * below;
        if (m >= M) continue;
        const float scale = x_back[m];
#pragma unroll
        for (int i = 0; i < 64; i += 4) {
#pragma unroll
            for (int right = 0; right < 2; ++right) {
                const int n = column + 2 * i + right;
                if (n < N) z[(long long)m * N + n] = total[i + 2 * below + right] * scale * w_back[n];
            }
        }
    }
}

constexpr int COLUMNS = 32;    // of one block of column_sums, one a lane
constexpr int ROW_LANES = 8;   // threads that share a column there
constexpr int ROWS = 128;      // that one block of column_sums adds up

// Adds up (z - z[0]) and its square for every column into sums[0] and sums[1]. Taking off the column's first value
// keeps the variance accurate where the mean is large beside the spread.
__global__ void column_sums(const float* z, float* sums, int M, int N) {
    __shared__ float shared[2][ROW_LANES][COLUMNS];
    const int column = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0.0f;
    float squares = 0.0f;
    if (column < N) {
        const float first = z[column];
        const int end = min(M, (int)(blockIdx.y + 1) * ROWS);
#pragma unroll 4
        for (int row = blockIdx.y * ROWS + threadIdx.y; row < end; row += ROW_LANES) {
            const float value = z[(long long)row * N + column] - first;
            sum += value;
            squares += value * value;
        }
    }
    shared[0][threadIdx.y][threadIdx.x] = sum;
    shared[1][threadIdx.y][threadIdx.x] = squares;
    __syncthreads();
    if (threadIdx.y < 2 && column < N) {
        float total = 0.0f;
        for (int lane = 0; lane < ROW_LANES; ++lane) total += shared[threadIdx.y][lane][threadIdx.x];
        atomicAdd(&sums[(long long)threadIdx.y * N + column], total);
    }
}

// From the sums: the mean, and with it (z - mean) * multiplier + offset is the scaled, normalised value.
__global__ void finalise(const float* z, const float* sums, const float* layer_bias, const float* weight,
                         const float* bias, const float* scale, float* running_mean, float* running_var,
                         float* mean_out, float* multiplier, float* offset, int M, int N, float eps, float momentum) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    const float shift = sums[column] / M;
    const float mean = z[column] + shift;
    const float var = fmaxf(sums[N + column] / M - shift * shift, 0.0f);
    mean_out[column] = mean;
    multiplier[column] = scale[0] * weight[column] / sqrtf(var + eps);
    offset[column] = scale[0] * bias[column];
    running_mean[column] += momentum * (mean + layer_bias[column] - running_mean[column]);
    running_var[column] += momentum * (var * M / (M - 1) - running_var[column]);
}

// A block for each row. It is read three times, but from memory once: the L1 holds it.
__global__ void normalise_softmax(const float* z, const float* mean, const float* multiplier, const float* offset,
                                  float* out, int N) {
    __shared__ float shared[THREADS / 32];
    const float* row = z + (long long)blockIdx.x * N;
    float* out_row = out + (long long)blockIdx.x * N;

    float largest = -INFINITY;
    for (int column = threadIdx.x; column < N; column += THREADS) {
        largest = fmaxf(largest, (row[column] - mean[column]) * multiplier[column] + offset[column]);
    }
    largest = reduce_block(largest, shared, Max());

    float sum = 0.0f;
    for (int column = threadIdx.x; column < N; column += THREADS) {
        sum += expf((row[column] - mean[column]) * multiplier[column] + offset[column] - largest);
    }
    sum = reduce_block(sum, shared, Sum());

    const float inverse = 1.0f / sum;
    for (int column = threadIdx.x; column < N; column += THREADS) {
        const float value = (row[column] - mean[column]) * multiplier[column] + offset[column];
        out_row[column] = expf(value - largest) * inverse;
    }
}

// ---- Host side ----

// The halves of a matrix as tiles, and what products of its rows are to be multiplied by.
std::tuple<torch::Tensor, torch::Tensor> split(torch::Tensor matrix, cudaStream_t stream) {
    const int rows = matrix.size(0), columns = matrix.size(1);
    const int row_tiles = (rows + TILE - 1) / TILE, depth_tiles = (columns + DEPTH - 1) / DEPTH;
    auto tiles = torch::empty({row_tiles, depth_tiles, 2, TILE, DEPTH}, matrix.options().dtype(torch::kFloat16));
    auto back = torch::empty({rows}, matrix.options());
    split_rows<<<row_tiles * TILE, THREADS, 0, stream>>>(matrix.data_ptr<float>(),
                                                         reinterpret_cast<__half*>(tiles.data_ptr<at::Half>()),
                                                         back.data_ptr<float>(), rows, columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {tiles, back};
}

torch::Tensor linear_bn_scale_softmax(torch::Tensor x, torch::Tensor layer_weight, torch::Tensor layer_bias,
                                      torch::Tensor weight, torch::Tensor bias, torch::Tensor scale,
                                      torch::Tensor running_mean, torch::Tensor running_var, double eps,
                                      double momentum) {
    for (const auto& tensor : {x, layer_weight, layer_bias, weight, bias, scale, running_mean, running_var}) {
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "every argument: a contiguous CUDA tensor");
        TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, "every argument: float32");
    }
    TORCH_CHECK(x.dim() == 2 && x.size(0) >= 2, "x: [M, K] with M of at least 2, a batch that has a variance");
    TORCH_CHECK(layer_weight.dim() == 2 && layer_weight.size(1) == x.size(1), "layer_weight: [N, K]");
    const int M = x.size(0), N = layer_weight.size(0);
    for (const auto& tensor : {layer_bias, weight, bias, running_mean, running_var}) {
        TORCH_CHECK(tensor.dim() == 1 && tensor.size(0) == N, "biases, weight, running statistics: [N]");
    }
    TORCH_CHECK(scale.numel() == 1, "scale: one value");
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    auto z = torch::empty({M, N}, x.options());
    auto out = torch::empty_like(z);
    if (N == 0) return out;

    auto [x_tiles, x_back] = split(x, stream);
    auto [w_tiles, w_back] = split(layer_weight, stream);
    C10_CUDA_CHECK(cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    product<<<x_tiles.size(0) * w_tiles.size(0), CONSUMERS + 128, SHARED, stream>>>(
        reinterpret_cast<const __half*>(x_tiles.data_ptr<at::Half>()),
        reinterpret_cast<const __half*>(w_tiles.data_ptr<at::Half>()), x_back.data_ptr<float>(),
        w_back.data_ptr<float>(), z.data_ptr<float>(), M, N, (int)x_tiles.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();

    auto sums = torch::zeros({2, N}, z.options());
    auto columns = torch::empty({3, N}, z.options());
    float* mean = columns.data_ptr<float>();
    float* multiplier = mean + N;
    float* offset = multiplier + N;
    const dim3 grid((N + COLUMNS - 1) / COLUMNS, (M + ROWS - 1) / ROWS);
    column_sums<<<grid, dim3(COLUMNS, ROW_LANES), 0, stream>>>(z.data_ptr<float>(), sums.data_ptr<float>(), M, N);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    finalise<<<(N + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
        z.data_ptr<float>(), sums.data_ptr<float>(), layer_bias.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), scale.data_ptr<float>(), running_mean.data_ptr<float>(), running_var.data_ptr<float>(),
        mean, multiplier, offset, M, N, (float)eps, (float)momentum);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    normalise_softmax<<<M, THREADS, 0, stream>>>(
        z.data_ptr<float>(), mean, multiplier, offset, out.data_ptr<float>(), N);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_source = """
torch::Tensor linear_bn_scale_softmax(torch::Tensor x, torch::Tensor layer_weight, torch::Tensor layer_bias,
                                      torch::Tensor weight, torch::Tensor bias, torch::Tensor scale,
                                      torch::Tensor running_mean, torch::Tensor running_var, double eps,
                                      double momentum);
"""

extension = load_inline(
    name="gemm_bn_softmax_best",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["linear_bn_scale_softmax"],
    # The tensor cores' own instructions, wgmma, are not in plain sm_90.
    extra_cuda_cflags=["-gencode=arch=compute_90a,code=sm_90a"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bn_eps, bn_momentum, scale_shape):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)
        self.scale = nn.Parameter(torch.ones(*scale_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bn = self.bn
        bn.num_batches_tracked += 1
        return extension.linear_bn_scale_softmax(
            x,
            self.gemm.weight,
            self.gemm.bias,
            bn.weight,
            bn.bias,
            self.scale,
            bn.running_mean,
            bn.running_var,
            bn.eps,
            bn.momentum,
        )
