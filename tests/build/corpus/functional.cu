// The C++ frontend in a .cu: only torch's full headers hold it.
#include <torch/extension.h>

namespace functional {
namespace F = torch::nn::functional;

torch::Tensor padded(torch::Tensor x) {
  auto y = F::pad(x, F::PadFuncOptions({1, 1}).mode(torch::kConstant).value(2));
  return F::gelu(F::linear(y, torch::eye(y.size(-1), y.options())));
}
}  // namespace functional
