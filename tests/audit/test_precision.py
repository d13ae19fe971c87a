"""Coarse arithmetic is told from fp32, and honest fp32 in any order is not taken for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shown import problem_of, shown

from harness.audit.formats import below, half_step
from harness.audit.probes import KINDS, probe
from harness.load.problem import Problem

Tensor = torch.Tensor
ROOT = Path(__file__).resolve().parents[2]
PRODUCT = """
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(64, 4096), torch.rand(4096, 64)]

def get_init_inputs():
    return []
"""


def nearest(x: Tensor, bits: int = 10) -> Tensor:
    rounding = {10: below("fp32")[0], 7: below("fp32")[3]}[bits].rounding
    return rounding(x.double()).float()


def truncated(x: Tensor, bits: int = 10) -> Tensor:
    return (x.contiguous().view(torch.int32) & (-1 << (23 - bits))).view(torch.float32)


def split(a: Tensor, b: Tensor, products: int) -> Tensor:
    a_high, b_high = nearest(a), nearest(b)
    a_low, b_low = nearest(a - a_high), nearest(b - b_high)
    return a_high @ b_low + a_high @ b_high + (a_low @ b_high if products == 3 else 0)


def one_by_one(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k]
    return total


def some_rows(a: Tensor, b: Tensor) -> Tensor:
    out = a @ b
    out[::5] = nearest(a[::5]) @ nearest(b)
    return out


COARSE: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "tf32": (lambda a, b: nearest(a) @ nearest(b), "tf32 or fp16"),
    "tf32 by truncation": (lambda a, b: truncated(a) @ truncated(b), "tf32"),
    "fp16": (lambda a, b: a.half().float() @ b.half().float(), "tf32 or fp16"),
    "bf16": (lambda a, b: nearest(a, 7) @ nearest(b, 7), "bf16"),
    "one operand only": (lambda a, b: a @ nearest(b), "tf32 or fp16"),
    "two of three products": (lambda a, b: split(a, b, 2), "tf32 or fp16"),
    "a fifth of the rows": (some_rows, "tf32"),
}
HONEST: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "three tf32 products": lambda a, b: split(a, b, 3),
    "one by one": one_by_one,
    "backwards": lambda a, b: a.flip(1) @ b.flip(0),
    "in chunks": lambda a, b: torch.stack([x @ y for x, y in zip(a.split(64, 1), b.split(64), strict=True)]).sum(0),
    "in float64": lambda a, b: (a.double() @ b.double()).float(),
}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return problem_of(tmp_path_factory.mktemp("product"), PRODUCT)


@pytest.mark.parametrize("name", COARSE)
def test_coarse_products_are_told_from_fp32(name: str, product: Problem) -> None:
    function, resembles = COARSE[name]
    found, within = shown(product, lambda _, a, b: function(a, b), kinds=["own", "integers", "moved"])
    assert found.below
    assert any(resembles in (leaf.resembles or "") for leaf in found.leaves if leaf.below)
    # Except for truncation, which the tolerance sees: this is about what it can't see.
    assert within["own"] == (name != "tf32 by truncation")
    assert min(leaf.ratio for leaf in found.leaves if leaf.below) > 25


def dithered(x: Tensor) -> Tensor:
    bits = x.contiguous().view(torch.int32)
    return ((bits + torch.randint_like(bits, 1 << 13)) & ~0x1FFF).view(torch.float32)


UNALIKE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bf16, scaled": lambda a, b: nearest(a * 1.37, 7) @ nearest(b * 1.37, 7) / 1.37**2,
    "ten bits, scaled": lambda a, b: nearest(a * 1.37) @ nearest(b * 1.19) / (1.37 * 1.19),
    "ten bits, rounded by chance": lambda a, b: dithered(a) @ dithered(b),
}


@pytest.mark.parametrize("kind", ["own", "moved"])
@pytest.mark.parametrize("name", UNALIKE)
def test_errors_like_nothing_are_told_by_their_size(name: str, kind: str, product: Problem) -> None:
    found, within = shown(product, lambda _, a, b: UNALIKE[name](a, b), kinds=[kind])
    (leaf,) = found.leaves
    assert found.below
    assert leaf.resembles is None
    assert leaf.beyond_sums is not None
    assert leaf.beyond_sums > (4 if kind == "own" else 200)
    # The tolerance sees none of it on the problem's own inputs.
    assert kind != "own" or within["own"]


@pytest.mark.parametrize("name", HONEST)
def test_honest_products_are_fp32(name: str, product: Problem) -> None:
    found, within = shown(product, lambda _, a, b: HONEST[name](a, b))
    assert not found.below, found
    assert all(within.values())
    assert max(leaf.ratio for leaf in found.leaves) < (16 if name == "one by one" else 4)


def one_input(expression: str, inputs: str) -> str:
    return (
        "class Model(nn.Module):\n    def forward(self, x):\n        return "
        f"{expression}\n\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    )


def running(x: Tensor) -> Tensor:
    total, out = torch.zeros(x.shape[1]), torch.empty_like(x)
    for at, row in enumerate(x):
        total = total + row
        out[at] = total
    return out


def without_maximum(x: Tensor) -> Tensor:
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


def fast(x: Tensor) -> Tensor:
    power = torch.exp2((x - x.amax(-1, keepdim=True)) * 1.4426950408889634)
    return power / power.sum(-1, keepdim=True)


def one_pass(x: Tensor) -> Tensor:
    mean = x.mean(1, keepdim=True)
    return (x - mean) / torch.sqrt((x * x).mean(1, keepdim=True) - mean**2 + 1e-5)


@pytest.mark.parametrize(
    ("expression", "inputs", "ours"),
    [
        ("torch.relu(x) * 2", "torch.randn(64, 300)", lambda x: torch.relu(x) * 3 * (2 / 3)),
        ("x.clone()", "torch.randn(64, 300)", lambda x: x + 0),
        ("torch.softmax(x, -1)", "3 * torch.randn(32, 1000)", fast),
        ("torch.softmax(x, -1)", "3 * torch.randn(32, 1000)", without_maximum),
        # Adding to a running sum drops the very bits that tf32 drops.
        ("torch.cumsum(x, 0)", "torch.rand(12000, 4)", running),
        ("torch.cumsum(x, 0)[-1]", "torch.rand(12000, 300)", lambda x: running(x)[-1]),
        ("nn.functional.layer_norm(x, (400,))", "torch.rand(100, 400) + 1", one_pass),
        ("nn.functional.gelu(x)", "torch.randn(64, 300)", lambda x: nn_gelu(x)),
    ],
)
def test_honest_variants_are_fp32(
    expression: str, inputs: str, ours: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    found, within = shown(problem_of(tmp_path, one_input(expression, inputs)), lambda _, x: ours(x))
    assert within["own"]
    assert not found.below, found


def nn_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * 0.70710678))


def test_a_coarse_running_sum_is_seen_where_the_inputs_have_no_common_sign(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, one_input("torch.cumsum(x, 0)", "torch.rand(12000, 4)"))
    found, within = shown(problem, lambda _, x: torch.cumsum(nearest(x), 0), kinds=["own", "moved"])
    assert within["own"]
    assert [leaf.below for leaf in found.leaves] == [False, True]


def test_half_precision_is_held_to_its_own_steps(tmp_path: Path) -> None:
    text = PRODUCT.replace("64, 4096)", "64, 1024).half()").replace("4096, 64)", "1024, 64).half()")
    problem = problem_of(tmp_path, text)
    honest, _ = shown(problem, lambda _, a, b: (a.float() @ b.float()).half())
    assert not honest.below
    assert max(leaf.ratio for leaf in honest.leaves) < 2
    coarse, _ = shown(problem, lambda _, a, b: (a.bfloat16().float() @ b.bfloat16().float()).half())
    assert coarse.below


@pytest.mark.parametrize(("asked", "below_it"), [("tf32", False), ("fp16", False), ("bf16", False), ("fp32", True)])
def test_what_the_problem_allows_is_allowed(asked: str, below_it: bool, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, PRODUCT, f'precision = "{asked}"\n')
    assert shown(problem, lambda _, a, b: nearest(a) @ nearest(b), kinds=["own", "moved"])[0].below == below_it


def test_bf16_is_below_tf32(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, PRODUCT, 'precision = "tf32"\n')
    assert shown(problem, lambda _, a, b: nearest(a, 7) @ nearest(b, 7), kinds=["own", "moved"])[0].below


def test_fp32_is_below_fp64(tmp_path: Path) -> None:
    text = PRODUCT.replace("64, 4096)", "64, 512).double()").replace("4096, 64)", "512, 64).double()")
    problem = problem_of(tmp_path, text, 'precision = "fp64"\n[tolerance]\natol = 1e-5\n')
    assert not shown(problem, lambda _, a, b: a.flip(1) @ b.flip(0))[0].below
    assert shown(problem, lambda _, a, b: (a.float() @ b.float()).double())[0].below


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("nn.functional.dropout(x, 0.5, True)", "draws random numbers"),
        ("FLOAT(x) * 2", "it raises RuntimeError there (no float64 here)"),
        ("x.sum()", "256 floating-point elements"),
    ],
)
def test_what_cannot_be_judged_is_said_and_not_guessed(expression: str, said: str, tmp_path: Path) -> None:
    only_float = (
        "def FLOAT(x):\n    if x.dtype is torch.float64:\n        raise RuntimeError('no float64 here')\n    return x\n"
    )
    reference = only_float + one_input(expression, "torch.randn(16, 64)")
    found, _ = shown(problem_of(tmp_path, reference), lambda model, x: model(x))
    assert not found.below
    assert not found.leaves
    assert said in found.left_out[0]


def test_inputs_that_the_reference_makes_nothing_of_are_left_out(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, one_input("torch.log(x)", "torch.rand(16, 64) + 1"))
    found, _ = shown(problem, lambda model, x: model(x))
    assert [leaf.inputs for leaf in found.leaves] == ["own", "integers", "spike", "heavy"]
    assert found.left_out == ["moved: the reference returns NaN or infinity there."]


def test_a_reference_that_casts_is_followed_into_float64(tmp_path: Path) -> None:
    reference = one_input("(x.half().float() @ x.float().T).to(torch.float32)", "torch.rand(64, 512)")
    found, _ = shown(problem_of(tmp_path, reference), lambda model, x: model(x), kinds=["own"])
    # What it loses itself is its own error, and what an answer may lose too.
    assert found.leaves[0].ratio == pytest.approx(1)
    assert found.leaves[0].reference_error > 1e-3


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(["float16", "bfloat16", "float32"]))
def test_a_half_step_is_the_most_that_rounding_costs(value: float, dtype: str) -> None:
    wide = torch.tensor([value], dtype=torch.float64)
    rounded = wide.to(getattr(torch, dtype)).double()
    if bool(torch.isfinite(rounded).all()):
        # Through float32, as torch does it, a tie may be rounded twice.
        assert float((rounded - wide).abs()) <= float(half_step(wide, dtype)) * (1 + 2**-10) + 1e-45


@given(st.floats(min_value=-1e30, max_value=1e30).filter(lambda value: abs(value) > 1e-30))
def test_emulated_bf16_is_bf16(value: float) -> None:
    wide = torch.tensor([value]).double()
    (bf16,) = [each for each in below("fp32") if each.name == "bf16"][:1]
    assert torch.equal(bf16.rounding(wide), wide.float().bfloat16().double())


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_keeps_the_form(kind: str) -> None:
    x = torch.rand(8, 16).t().bfloat16()
    number, mask = torch.tensor(0.5), torch.arange(20)
    made = probe(kind, [x, {"mask": mask, "n": [number, 3]}], 7)
    assert made is not None
    assert (made[0].shape, made[0].stride(), made[0].dtype) == (x.shape, x.stride(), x.dtype)
    assert not torch.equal(made[0], x)
    assert torch.equal(made[1]["mask"], mask)
    assert made[1]["n"] == [number, 3]
    assert probe(kind, [mask, number, 3], 7) is None
