#include <torch/extension.h>

namespace factories {
std::vector<torch::Tensor> made(torch::Tensor x);
std::vector<torch::Tensor> algebra(torch::Tensor a, torch::Tensor b);
bool gradient_is_kept();
std::string printed(torch::Tensor x);
}  // namespace factories
namespace dispatch {
torch::Tensor on_device(torch::Tensor x, double factor);
std::tuple<torch::Tensor, int64_t> on_host(torch::Tensor x, std::optional<double> factor);
std::string refusal(torch::Tensor x);
}  // namespace dispatch
namespace streams {
at::Tensor sum(const at::Tensor& a, const at::Tensor& b);
}
namespace device {
torch::Tensor launch(torch::Tensor x);
}
namespace functional {
torch::Tensor padded(torch::Tensor x);
}

torch::Tensor keyword(torch::Tensor x, py::dict options) { return x * options["factor"].cast<double>(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("made", &factories::made);
  m.def("algebra", &factories::algebra);
  m.def("gradient_is_kept", &factories::gradient_is_kept);
  m.def("printed", &factories::printed);
  m.def("on_device", &dispatch::on_device, py::arg("x"), py::arg("factor") = 2.0);
  m.def("on_host", &dispatch::on_host, py::arg("x"), py::arg("factor") = py::none());
  m.def("refusal", &dispatch::refusal);
  m.def("sum", &streams::sum);
  m.def("launch", &device::launch, "launches", py::call_guard<py::gil_scoped_release>());
  m.def("padded", &functional::padded);
  m.def("keyword", &keyword);
}
