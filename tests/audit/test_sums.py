"""How much a plain sum may err, held against plain sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.audit.sums import PlainSums, deviation

Tensor = torch.Tensor
TERMS = 2048


def plain(a: Tensor, b: Tensor, lanes: int = 1) -> Tensor:
    """One term after the other, in so many sums side by side."""
    totals = [torch.zeros(a.shape[0], b.shape[1]) for _ in range(lanes)]
    for k in range(a.shape[1]):
        totals[k % lanes] += a[:, k : k + 1] * b[k]
    return torch.stack(totals).sum(0)


def first(size: float) -> Tensor:
    return size * (torch.arange(TERMS) == 0)


@pytest.mark.parametrize(
    "made",
    [
        lambda: (torch.rand(32, TERMS), torch.rand(TERMS, 32)),
        lambda: (torch.randn(32, TERMS), torch.randn(TERMS, 32)),
        lambda: (torch.full((32, TERMS), 0.1), torch.full((TERMS, 32), 0.3)),
        lambda: (5 + 1e-3 * torch.rand(32, TERMS), 5 + 1e-3 * torch.rand(TERMS, 32)),
        lambda: (torch.rand(32, TERMS) * (1 - 2 * (torch.arange(TERMS) % 2)), torch.rand(TERMS, 32)),
        lambda: (torch.rand(32, TERMS).sort(1).values, torch.rand(TERMS, 32).sort(0).values),
        lambda: (torch.rand(32, TERMS) + first(1e4), torch.full((TERMS, 32), 0.3)),
        lambda: (0.1 * torch.randint(4, (32, TERMS)), 0.1 * torch.randint(4, (TERMS, 32))),
    ],
    ids=["uniform", "normal", "constant", "nearly so", "alternating", "sorted", "large first term", "few values"],
)
def test_no_plain_sum_errs_by_more(made: Callable[[], tuple[Tensor, Tensor]]) -> None:
    torch.manual_seed(3)
    a, b = made()
    wide = a.double() @ b.double()
    allowed = float(deviation("mm", (a.double(), b.double()), {}, "fp32").square().mean().sqrt())
    ways = [plain(a, b), plain(a.flip(1), b.flip(0)), plain(a, b, lanes=2), plain(a * 0.3, b) / 0.3, a @ b]
    errors = [float((way - wide).square().mean().sqrt()) for way in ways]
    assert max(errors) < 2 * allowed
    # It is no bound that holds because it is far away.
    assert max(errors) > 0.2 * allowed


@pytest.mark.parametrize(
    ("name", "shapes", "kwargs"),
    [
        ("mm", [(3, 64), (64, 5)], {}),
        ("bmm", [(2, 3, 64), (2, 64, 5)], {}),
        ("addmm", [(5,), (3, 64), (64, 5)], {"beta": 2, "alpha": 0.5}),
        ("baddbmm", [(2, 3, 5), (2, 3, 64), (2, 64, 5)], {}),
        ("mv", [(3, 64), (64,)], {}),
        ("addmv", [(3,), (3, 64), (64,)], {"beta": 0}),
        ("dot", [(64,), (64,)], {}),
    ],
)
def test_each_product_has_errors_of_its_form(
    name: str, shapes: list[tuple[int, ...]], kwargs: dict[str, float]
) -> None:
    args = tuple(torch.rand(shape, dtype=torch.float64) for shape in shapes)
    result = getattr(torch, name)(*args, **kwargs)
    size = deviation(name, args, kwargs, "fp32")
    assert size.shape == result.shape
    # Sums of 64 positive terms: sqrt(64 / 3) roundings of the whole sum, and a bias that is rounded with it each time.
    relative = size / result / (0.42 * 2**-24)
    assert float(relative.min()) > 4
    assert float(relative.max()) < 12


@pytest.mark.parametrize(
    ("operators", "known"),
    [
        ({"mm"}, True),
        ({"addmm", "relu", "add_", "clone"}, True),
        ({"mm", "exp"}, False),
        ({"mm", "sum"}, False),
        ({"convolution"}, False),
        ({"addmm_"}, False),
    ],
)
def test_it_is_known_for_products_and_what_is_exact(operators: set[str], known: bool) -> None:
    assert PlainSums.known_for(operators) == known
