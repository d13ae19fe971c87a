// Device libraries: cub, cooperative groups, wmma, inline PTX, asynchronous copies.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
#include <cuda_pipeline.h>
#include <mma.h>
#include <torch/extension.h>

namespace device {
namespace cg = cooperative_groups;

__global__ void block_sum(const float* in, float* out, int n) {
  using Reduce = cub::BlockReduce<float, 256>;
  __shared__ typename Reduce::TempStorage storage;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float total = Reduce(storage).Sum(i < n ? in[i] : 0.f);
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const float again = cg::reduce(warp, total, cg::plus<float>());
  if (threadIdx.x == 0) out[blockIdx.x] = total + 0.f * again;
}

__global__ void tensor_cores(const half* a, const half* b, float* c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

__global__ void lanes(int* out, const float4* in) {
  extern __shared__ float4 staged[];
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  __pipeline_memcpy_async(&staged[threadIdx.x], &in[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = static_cast<int>(lane) + static_cast<int>(staged[threadIdx.x].x);
}

torch::Tensor launch(torch::Tensor x) {
  auto out = torch::empty({(x.numel() + 255) / 256}, x.options());
  block_sum<<<out.numel(), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(x.numel()));
  auto h = x.to(torch::kHalf);
  tensor_cores<<<1, 32>>>(
      reinterpret_cast<half*>(h.data_ptr<at::Half>()), reinterpret_cast<half*>(h.data_ptr<at::Half>()),
      x.data_ptr<float>());
  auto ints = torch::zeros({32}, x.options().dtype(torch::kInt));
  lanes<<<1, 32, 32 * sizeof(float4)>>>(ints.data_ptr<int>(), reinterpret_cast<float4*>(x.data_ptr<float>()));
  return out;
}
}  // namespace device
