"""Both models from one seed, and the reference's parameters for the submission's."""

from __future__ import annotations

from typing import Literal

from harness.check.oracle import Oracle
from harness.report import Warning_
from harness.wire.transfer import TensorSpec
from harness.workers.worker import Worker

Weights = Literal["transferred", "seeded", "none"]


def construct_both(
    worker: Worker, oracle: Oracle, *, seed: int, limit_s: float, model: str
) -> tuple[Weights, Warning_ | None]:
    """Construct the reference here and the submission's model there, as `model`, and copy parameters over.

    They are copied strictly, by name, where names, dtypes and shapes are the same; elsewhere the equal seed has to do,
    and the warning says so.
    """
    arguments = oracle.init_inputs(seed)
    oracle.construct(arguments, seed)
    theirs = worker.construct(arguments, seed, limit_s, model=model, destinations=oracle.destinations)
    ours = oracle.state_specs()
    if not ours:
        return "none", None
    if _form(theirs) == _form(ours):
        worker.load_state(oracle.state(), limit_s, model=model)
        return "transferred", None
    return "seeded", _seeded(theirs, ours)


def _form(specs: dict[str, TensorSpec]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {key: (spec.dtype, spec.shape) for key, spec in specs.items()}


def _seeded(theirs: dict[str, TensorSpec], ours: dict[str, TensorSpec]) -> Warning_:
    missing, extra = sorted(ours.keys() - theirs.keys()), sorted(theirs.keys() - ours.keys())
    differing = sorted(key for key in ours.keys() & theirs.keys() if ours[key].shape != theirs[key].shape)
    return Warning_(
        code="weights.seeded",
        message="ModelNew's parameters have other names or shapes than the reference's, so they were not copied over: "
        "both models were constructed from the same seed. They are equal only if ModelNew draws its parameters as the "
        "reference does.",
        evidence={"missing": missing[:20], "extra": extra[:20], "other_shape": differing[:20]},
    )
