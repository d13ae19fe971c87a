// Factory functions under torch:: and at::, tensor operators, indexing, printing.
#include <torch/extension.h>

#include <iostream>
#include <vector>

namespace factories {
using namespace torch::indexing;

std::vector<torch::Tensor> made(torch::Tensor x) {
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device()).requires_grad(false);
  std::vector<float> raw = {1.f, 2.f, 3.f, 4.f};
  auto blob = torch::from_blob(raw.data(), {2, 2}, torch::kFloat32).clone();
  auto empty = torch::empty({2, 3}, options).fill_(7);
  auto like = torch::empty_like(x, torch::MemoryFormat::Contiguous).zero_();
  return {
      torch::zeros({3, 2}, x.options().dtype(torch::kInt64)),
      torch::ones_like(x),
      torch::full({2}, 3.5, torch::dtype(torch::kFloat64)),
      torch::arange(0, 10, 2, torch::kInt32),
      torch::linspace(0, 1, 5),
      torch::eye(3),
      torch::tensor({1.5, 2.5}, torch::kFloat32),
      at::zeros_like(x),
      at::empty({1}, at::kFloat).fill_(2),
      torch::scalar_tensor(4.0),
      blob,
      empty,
      like,
  };
}

std::vector<torch::Tensor> algebra(torch::Tensor a, torch::Tensor b) {
  auto sum = a + b * 2.0 - 1.0 / (b.abs() + 1);
  auto product = torch::matmul(a, b.t());
  auto joined = torch::cat({a, b}, 0);
  auto piled = at::stack({a, b}, 1);
  auto part = a.index({Slice(0, 1), "..."});
  auto soft = torch::softmax(a, -1);
  auto where = torch::where(a > 0, a, torch::zeros_like(a));
  auto [values, indices] = a.max(1);
  auto copy = a.clone();
  copy.index_put_({0}, torch::tensor(9.f));
  return {sum, product, joined, piled, part, soft, where, values, indices, copy, at::sum(a, {0}, true), a.std(1)};
}

bool gradient_is_kept() {
  auto x = torch::ones({2}, torch::requires_grad());
  torch::NoGradGuard guard;
  auto y = x * 2;
  return x.requires_grad() && x.is_leaf() && !y.requires_grad();
}

std::string printed(torch::Tensor x) {
  std::ostringstream out;
  out << x << " " << x.sizes() << " " << x.scalar_type();
  return out.str();
}
}  // namespace factories
