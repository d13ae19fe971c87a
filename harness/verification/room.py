"""How much room the tolerance leaves an honest computation, which adds in another order than the reference.

With `r` the reference's own result, `w` a float64 run of it, `h` half a step of the leaf's dtype at `w`, and `y`
float64 runs in which numbers are moved at random by up to half a step of the arithmetic that the problem asks for, as
rounding in another order moves them,

    factor = min over elements of (atol * scale + rtol * |r| - 2 h) / (max(0, |r - w| - h) + |y - w|)

A submission is held against r, not w, so both errors count. The last rounding, to the leaf's dtype, is the same in any
order; two right results may differ by a step there, which is set aside. Moved is every result of an operator, and in
fp32 and fp64 every input and parameter as well: that stands for sums within an operator. In narrower arithmetics those
are made in fp32, and inputs are taken as they are.
"""

from __future__ import annotations

import torch

from harness.audit.formats import MANTISSA, Emulated, half_step, noise, precision_of
from harness.audit.oracle64 import WideOracle
from harness.audit.wide import NotWide, Where
from harness.check.compare import Expected, Leaf
from harness.verification.findings import Room
from harness.verification.subject import Found, Subject, allowed

NONE, TIGHT = 1.0, 10.0
"""Below the first an honest result may be refused. Below the second: one product after the other, instead of in blocks,
makes the errors of a sum of some thousands ten times as large (docs/precision.md)."""
_RUNS = 3
"""Runs with other roundings."""


def check_room(subject: Subject, found: Found) -> None:
    """Measure the room of each leaf."""
    inputs, call_seed = subject.inputs(0), subject.call_seed(0)
    expected = subject.expected(0)
    subject.restore()
    try:
        oracle = WideOracle(subject.oracle, subject.device)
        wide = oracle.outputs(inputs, call_seed, expected)
        others = {
            precision: _others(subject, oracle, precision, expected)
            for precision in {_precision(leaf, subject) for leaf in expected.leaves} - {None}
            if precision is not None
        }
    except NotWide as error:
        found.left_out.append(f"The room of the tolerance: the reference can't be run in float64, because {error}.")
        return
    finally:
        subject.restore()
    for number, leaf in enumerate(expected.leaves):
        precision = _precision(leaf, subject)
        if not leaf.flat.numel():
            continue
        if precision is None:
            _exact(leaf, wide[number], found)
        else:
            _judge(leaf, wide[number], [run[number] for run in others[precision]], precision, found)


def _precision(leaf: Leaf, subject: Subject) -> str | None:
    """The arithmetic that a submission may use for a leaf; None for exact ones."""
    own = precision_of(leaf.spec.dtype)
    asked = subject.problem.spec.precision
    if own is None:
        return None
    if asked in ("any", "fp8"):  # only the tolerance counts; sums are made in fp32 at least
        return "fp64" if own == "fp64" else "fp32"
    return asked


def _others(subject: Subject, oracle: WideOracle, precision: str, expected: Expected) -> list[list[torch.Tensor]]:
    """Flat leaves of the further runs. Raises NotWide."""
    # Tf32 is what products take; results of it stay fp32. Where there are none it is a format like the others.
    where: Where = "products" if precision == "tf32" and oracle.products else "results"
    runs: list[Emulated] = [noise(precision, subject.seeds.of("verify room", number)) for number in range(_RUNS)]
    return [
        oracle.coarse(
            run,
            where,
            subject.inputs(0),
            subject.call_seed(0),
            expected,
            given_too=MANTISSA[precision] >= MANTISSA["fp32"],
        )
        for run in runs
    ]


def _judge(leaf: Leaf, wide: torch.Tensor, others: list[torch.Tensor], precision: str, found: Found) -> None:
    tolerance, reference = allowed(leaf), leaf.flat.to(torch.float64)
    usable = torch.isfinite(wide) & torch.isfinite(reference)
    half = half_step(torch.where(usable, wide, 0.0), leaf.spec.dtype)
    own = torch.where(usable, ((reference - wide).abs() - half).clamp_min(0.0), 0.0)
    other = torch.zeros_like(own)
    for run in others:
        apart = (run.to(torch.float64) - wide).abs()
        other = torch.maximum(other, torch.where(usable & torch.isfinite(apart), apart, 0.0))
    left = tolerance - 2.0 * half

    def share(error: torch.Tensor) -> float:
        """The largest error over what is left for it; infinite where nothing is."""
        beyond = torch.where(left > 0, error / left, torch.inf)
        return float(torch.where(error > 0, beyond, 0.0).max())

    used = share(own + other)
    factor = None if used == 0 else 1.0 / used
    room = Room(
        path=leaf.path, factor=factor, reference_error=share(own), other_error=share(other), precision=precision
    )
    found.room.append(room)
    if factor is None or factor >= TIGHT:
        return
    evidence = room.model_dump(mode="json")
    if factor < NONE:
        found.add(
            "error",
            "room.none",
            f"An honest computation in {precision} may be outside the tolerance of {leaf.path}: its rounding errors "
            f"take {used:.2g} times what is allowed. Raise the tolerance, ask for another precision, or choose inputs "
            "that lose fewer digits.",
            **evidence,
        )
    else:
        found.add(
            "warning",
            "room.tight",
            f"The tolerance of {leaf.path} is only {factor:.2g} times the errors of an honest computation in "
            f"{precision}; a plain loop over long sums has ten times those. Raise the tolerance.",
            **evidence,
        )


def _exact(leaf: Leaf, wide: torch.Tensor, found: Found) -> None:
    """Integers and bools: an index of a largest element, say, which rounding decides where two are nearly the same."""
    differing = int((wide != leaf.flat).sum())
    if differing:
        found.add(
            "warning",
            "room.integers",
            f"{differing} of {leaf.flat.numel()} elements of {leaf.path} come out otherwise in float64: they depend on "
            "how sums are rounded, and an honest submission may differ there. Choose inputs without near ties.",
            path=leaf.path,
            differing=differing,
        )
