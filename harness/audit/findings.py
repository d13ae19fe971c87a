"""What the audit found, as it stands in the report."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Finding(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings")


class LeafPrecision(_Finding):
    """How accurate one leaf of the output was on one kind of input."""

    path: str
    """As in `correctness.leaves`."""
    inputs: str
    """The kind of input: `own` (the problem's), or one made from it: `integers`, `spike`, `moved`, `heavy`."""
    ratio: float
    """Error against a float64 run of the reference over the reference's own error against it, both as root mean squares
    over a block of elements: the figure that nine of ten blocks stay below."""
    error: float
    """Root mean square of the error against the float64 run."""
    reference_error: float
    """The same of the reference, and at least what rounding a right result to the leaf's dtype costs."""
    resembles: str | None = None
    """The arithmetic whose errors these are: `tf32`, `fp16`, `bf16`, ...; None: none that is known, or not looked at
    because the ratio is small."""
    likeness: float | None = None
    """How much the errors go together with those of that arithmetic: 0 not at all, 1 entirely."""
    relative_size: float | None = None
    """How large the errors are beside those of the mildest arithmetic below what was asked for."""
    below: bool = False
    """Whether this shows less than the precision that was asked for."""


class Precision(_Finding):
    """Whether the submission computes as accurately as the problem asks."""

    asked: str
    """`precision` of the problem."""
    policy: Literal["reject", "flag"]
    """`precision_policy` of the problem."""
    below: bool = False
    """Whether it falls short."""
    leaves: list[LeafPrecision] = []
    """Each floating-point leaf on each kind of input that was tried."""
    left_out: list[str] = []
    """What was not tried, or not judged, and why."""


class Audit(_Finding):
    """What was looked at besides results and times. Nothing in here is needed for a result to be right."""

    precision: Precision | None = None
    """None where it was not reached."""
