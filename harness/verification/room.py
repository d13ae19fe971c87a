"""How much room the tolerance leaves an honest computation, which adds in another order than the reference.

With `r` the reference's own result, `w` a float64 run of it, and `y` runs in which every input, parameter and result of
an operator is moved at random by up to half a step of the arithmetic that the problem allows (as rounding in another
order moves them),

    used = max over elements of (|r - w| + |y - w|) / (atol * scale + rtol * |r|),    factor = 1 / used

The grader holds a submission against r, not w; so both errors count, and their sum is what an unlucky element shows.
"""

from __future__ import annotations

import torch

from harness.audit.formats import MANTISSA, Emulated, emulated, noise, precision_of
from harness.audit.oracle64 import WideOracle
from harness.audit.wide import NotWide
from harness.compare import Expected, Leaf
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
    if own is None or asked == "any":
        return own
    return min(own, asked, key=lambda name: MANTISSA[name])


def _others(subject: Subject, oracle: WideOracle, precision: str, expected: Expected) -> list[list[torch.Tensor]]:
    """Flat leaves of the further runs. Raises NotWide."""
    runs: list[Emulated] = [
        noise(precision, subject.seeds.of("verify room", number) % (1 << 62)) for number in range(_RUNS)
    ]
    made = []
    for run in runs:
        # Tf32 is what products take; results of it stay fp32.
        where = "products" if precision == "tf32" and oracle.products else "results"
        made.append(oracle.coarse(run, where, subject.inputs(0), subject.call_seed(0), expected))  # type: ignore[arg-type]
        if where == "products":
            made.append(oracle.coarse(emulated(precision), where, subject.inputs(0), subject.call_seed(0), expected))  # type: ignore[arg-type]
    return made


def _judge(leaf: Leaf, wide: torch.Tensor, others: list[torch.Tensor], precision: str, found: Found) -> None:
    tolerance, reference = allowed(leaf), leaf.flat.to(torch.float64)
    usable = torch.isfinite(wide) & torch.isfinite(reference)
    own = torch.where(usable, (reference - wide).abs(), 0.0)
    other = torch.zeros_like(own)
    for run in others:
        apart = (run.to(torch.float64) - wide).abs()
        other = torch.maximum(other, torch.where(usable & torch.isfinite(apart), apart, 0.0))

    def share(error: torch.Tensor) -> float:
        return float(torch.where(error > 0, error / tolerance, 0.0).max())

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
            f"An honest computation in {precision} may be outside the tolerance of {leaf.path}: rounding takes "
            f"{used:.2g} times what is allowed. Raise the tolerance, or choose inputs that lose fewer digits.",
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
