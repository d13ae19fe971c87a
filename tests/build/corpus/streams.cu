// Streams, guards, launch checks, device properties.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace streams {
__global__ void add(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 x = a[i], y = __ldg(b + i);
  out[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

at::Tensor sum(const at::Tensor& a, const at::Tensor& b) {
  TORCH_INTERNAL_ASSERT(a.device() == b.device());
  const c10::cuda::CUDAGuard guard(a.device());
  const c10::cuda::OptionalCUDAGuard maybe(at::device_of(b));
  auto out = at::empty_like(a);
  const int n = static_cast<int>(a.numel() / 4);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  add<<<std::min((n + 255) / 256, sms), 256, 0, c10::cuda::getCurrentCUDAStream().stream()>>>(
      reinterpret_cast<const float4*>(a.data_ptr<float>()), reinterpret_cast<const float4*>(b.const_data_ptr<float>()),
      reinterpret_cast<float4*>(out.mutable_data_ptr<float>()), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  AT_CUDA_CHECK(cudaStreamSynchronize(stream));
  return out;
}
}  // namespace streams
