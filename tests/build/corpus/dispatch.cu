// Dispatch macros, packed accessors, half types, templates, checks.
#include <torch/types.h>
#include <ATen/Dispatch.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <optional>
#include <tuple>

namespace dispatch {
template <typename scalar_t>
__global__ void scale(
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> in,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out, float factor) {
  const int row = blockIdx.x, col = threadIdx.x;
  if (col < in.size(1)) out[row][col] = static_cast<scalar_t>(static_cast<float>(in[row][col]) * factor);
}

template <typename T, int N>
struct Pack {
  T values[N];
};

template <int N>
__global__ void half_sum(const __half* in, __half2* out, const __nv_bfloat16* b) {
  Pack<float, N> acc = {};
#pragma unroll
  for (int i = 0; i < N; ++i) acc.values[i] = __half2float(in[threadIdx.x * N + i]) + __bfloat162float(b[i]);
  out[threadIdx.x] = __floats2half2_rn(acc.values[0], acc.values[N - 1]);
}

torch::Tensor on_device(torch::Tensor x, double factor) {
  TORCH_CHECK(x.dim() == 2, "expected 2 dimensions, got ", x.dim());
  TORCH_CHECK(x.is_contiguous(), "expected a contiguous tensor");
  auto out = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<x.size(0), x.size(1)>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        out.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), static_cast<float>(factor));
  });
  half_sum<4><<<1, 32>>>(
      reinterpret_cast<const __half*>(x.data_ptr<at::Half>()), reinterpret_cast<__half2*>(out.data_ptr<at::Half>()),
      reinterpret_cast<const __nv_bfloat16*>(out.data_ptr<at::BFloat16>()));
  return out;
}

std::tuple<torch::Tensor, int64_t> on_host(torch::Tensor x, std::optional<double> factor) {
  auto out = torch::zeros_like(x);
  int64_t seen = 0;
  AT_DISPATCH_ALL_TYPES_AND(at::ScalarType::Half, x.scalar_type(), "on_host", [&] {
    auto in = x.accessor<scalar_t, 2>();
    auto to = out.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); ++i)
      for (int64_t j = 0; j < x.size(1); ++j, ++seen)
        to[i][j] = static_cast<scalar_t>(static_cast<double>(in[i][j]) * factor.value_or(2.0));
  });
  return {out, seen};
}

std::string refusal(torch::Tensor x) {
  try {
    TORCH_CHECK_VALUE(x.dim() == 7, "seven, not ", x.dim());
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}
}  // namespace dispatch
