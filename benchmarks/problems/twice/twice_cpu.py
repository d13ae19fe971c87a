"""In C++, so that there is something to build."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2.0f * from[i];
    return y;
}
"""

extension = load_inline(name="twice_cpu", cpp_sources=SOURCE, functions=["twice"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    """y = 2 x."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [elements], fp32."""
        return extension.twice(x)
