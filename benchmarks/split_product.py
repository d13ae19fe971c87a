"""What a split fp16 product on tensor cores loses, by how many products they sum before ordinary additions take over.

python -m benchmarks.split_product          # minutes on two cores

Made on the CPU, after the layer of problems/gemm_bn_scale_softmax at its depth of 8192. Tensor cores are modelled as
exact products in groups of 16, each group's sum rounded towards zero to fp32. `ratio`: the root mean square error of
the softmax's output over that of torch's fp32 on this machine.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROWS, COLUMNS, DEPTH = 256, 128, 8192
GROUP = 16


def towards_zero(exact: Tensor) -> Tensor:
    """float64 to float32 without rounding up."""
    near = exact.float()
    return torch.where(near.double().abs() > exact.abs(), torch.nextafter(near, torch.zeros_like(near)), near)


def halves(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each row scaled to just below 2^15 and split: high, low, and what undoes the scale."""
    scale = 2.0 ** (15 - (torch.floor(torch.log2(matrix.abs().amax(1, keepdim=True))) + 1))
    high = (matrix * scale).half()
    low = (matrix * scale - high.float()).half()
    return high.double(), low.double(), 1 / scale


def split_product(x: Tensor, w: Tensor, length: int) -> Tensor:
    """x @ w.T in fp16 halves; `length` products are summed as tensor cores do."""
    x_high, x_low, x_back = halves(x)
    w_high, w_low, w_back = halves(w)
    total = torch.zeros(len(x), len(w))
    for start in range(0, DEPTH, length):
        sums = torch.zeros_like(total)
        for left, right in ((x_low, w_high), (x_high, w_low), (x_high, w_high)):
            for k in range(start, start + length, GROUP):
                sums = towards_zero(sums.double() + left[:, k : k + GROUP] @ right[:, k : k + GROUP].T)
        total = total + sums
    return total * x_back * w_back.T


def tf32(matrix: Tensor) -> Tensor:
    """Rounded to 11 bits, as tensor cores want it."""
    return ((matrix.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def output(z: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Batch norm and softmax, in the precision of z."""
    spread = torch.sqrt(z.var(0, correction=0) + 1e-5)
    return torch.softmax((z - z.mean(0)) / spread * weight.to(z) + bias.to(z), dim=1)


def main() -> None:
    """Print the table."""
    torch.manual_seed(0)
    weight, bias = torch.rand(COLUMNS) + 0.5, torch.rand(COLUMNS) - 0.5
    w = (torch.rand(COLUMNS, DEPTH) * 2 - 1) / math.sqrt(DEPTH)
    print(f"{'inputs':<10} {'product':<34} {'error':>10} {'ratio':>8}")
    for inputs, x in (("[0, 1)", torch.rand(ROWS, DEPTH)), ("[-.5, .5)", torch.rand(ROWS, DEPTH) - 0.5)):
        exact = output(x.double() @ w.double().T, weight, bias)
        products = {"torch's fp32": x @ w.T}
        for length in (64, 512, DEPTH):
            products[f"three fp16 products, sums of {length}"] = split_product(x, w, length)
        products["tf32"] = (tf32(x).double() @ tf32(w).double().T).float()
        errors = {name: float((output(z, weight, bias) - exact).pow(2).mean().sqrt()) for name, z in products.items()}
        plain = errors["torch's fp32"]
        for name, error in errors.items():
            print(f"{inputs:<10} {name:<34} {error:>10.2e} {error / plain:>8.2f}")


if __name__ == "__main__":
    main()
