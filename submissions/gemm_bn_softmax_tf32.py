# problem: gemm_bn_scale_softmax
"""GEMM, batch norm, scale, softmax with tf32 switched on: faster, and rejected. Teaches what fp32 means.

The same as gemm_bn_softmax_v1.py but for one line, which lets the library multiply on the tensor cores in tf32: 11 bits
of every operand. The problem asks for fp32, and a tolerance alone need not show the difference; the grader sees that
the errors are those of dropped bits (docs/precision.md). gemm_bn_softmax_best.py keeps these bits.
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

constexpr int COLUMNS = 32;    // of one block of column_sums, one a lane
constexpr int ROW_LANES = 8;   // threads that share a column there
constexpr int ROWS = 128;      // that one block of column_sums adds up
constexpr int THREADS = 256;

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
__global__ void finalise(const float* z, const float* sums, const float* weight, const float* bias, const float* scale,
                         float* running_mean, float* running_var, float* mean_out, float* multiplier, float* offset,
                         int M, int N, float eps, float momentum) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    const float shift = sums[column] / M;
    const float mean = z[column] + shift;
    const float var = fmaxf(sums[N + column] / M - shift * shift, 0.0f);
    mean_out[column] = mean;
    multiplier[column] = scale[0] * weight[column] / sqrtf(var + eps);
    offset[column] = scale[0] * bias[column];
    running_mean[column] += momentum * (mean - running_mean[column]);
    running_var[column] += momentum * (var * M / (M - 1) - running_var[column]);
}

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

torch::Tensor bn_scale_softmax(torch::Tensor z, torch::Tensor weight, torch::Tensor bias, torch::Tensor scale,
                               torch::Tensor running_mean, torch::Tensor running_var, double eps, double momentum) {
    for (const auto& tensor : {z, weight, bias, scale, running_mean, running_var}) {
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "every argument: a contiguous CUDA tensor");
        TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, "every argument: float32");
    }
    TORCH_CHECK(z.dim() == 2 && z.size(0) >= 2, "z: [M, N] with M of at least 2, a batch that has a variance");
    const int M = z.size(0), N = z.size(1);
    for (const auto& tensor : {weight, bias, running_mean, running_var}) {
        TORCH_CHECK(tensor.dim() == 1 && tensor.size(0) == N, "weight, bias, running statistics: [N]");
    }
    TORCH_CHECK(scale.numel() == 1, "scale: one value");
    const c10::cuda::CUDAGuard guard(z.device());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    auto out = torch::empty_like(z);
    if (N == 0) return out;
    auto sums = torch::zeros({2, N}, z.options());
    auto columns = torch::empty({3, N}, z.options());
    float* mean = columns.data_ptr<float>();
    float* multiplier = mean + N;
    float* offset = multiplier + N;

    const dim3 grid((N + COLUMNS - 1) / COLUMNS, (M + ROWS - 1) / ROWS);
    column_sums<<<grid, dim3(COLUMNS, ROW_LANES), 0, stream>>>(z.data_ptr<float>(), sums.data_ptr<float>(), M, N);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    finalise<<<(N + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
        z.data_ptr<float>(), sums.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        scale.data_ptr<float>(), running_mean.data_ptr<float>(), running_var.data_ptr<float>(), mean, multiplier,
        offset, M, N, (float)eps, (float)momentum);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    normalise_softmax<<<M, THREADS, 0, stream>>>(
        z.data_ptr<float>(), mean, multiplier, offset, out.data_ptr<float>(), N);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_source = """
torch::Tensor bn_scale_softmax(torch::Tensor z, torch::Tensor weight, torch::Tensor bias, torch::Tensor scale,
                               torch::Tensor running_mean, torch::Tensor running_var, double eps, double momentum);
"""

extension = load_inline(
    name="gemm_bn_softmax_tf32",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["bn_scale_softmax"],
)


torch.backends.cuda.matmul.allow_tf32 = True  # the one line


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bn_eps, bn_momentum, scale_shape):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)
        self.scale = nn.Parameter(torch.ones(*scale_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = F.linear(x, self.gemm.weight, self.gemm.bias)
        bn = self.bn
        bn.num_batches_tracked += 1
        return extension.bn_scale_softmax(
            z, bn.weight, bn.bias, self.scale, bn.running_mean, bn.running_var, bn.eps, bn.momentum
        )
