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
    beyond_sums: float | None = None
    """How large the errors are beside those of sums that add one term after the other, the least accurate honest way of
    taking products; None: not looked at, or not known for what the reference computes."""
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


class KernelUse(_Finding):
    """One kernel that a call launches. Names and times are the word of the submission's process."""

    name: str
    """As the profiler shows it."""
    origin: Literal["extension", "text", "library", "copy"]
    """Where a kernel of this name comes from: an extension that was built, a kernel in the submission's text (Triton,
    NVRTC), a library or generated code, or a copy or fill by the runtime."""
    calls: float
    """Launches in one call of forward."""
    time_us: float
    """Microseconds in one call of forward."""
    own: bool
    """Whether the submission brought it."""


class Repeat(_Finding):
    """The same input several times."""

    calls: int
    """Calls on it."""
    repeatable: bool
    """Whether all results were the same to the bit, at the elements that were looked at."""
    max_difference: float
    """The largest difference between two results, over the root mean square of the leaf."""


class Audit(_Finding):
    """What was looked at besides results and times. Nothing in here is needed for a result to be right."""

    precision: Precision | None = None
    """None where it was not reached."""
    repeat: Repeat | None = None
    """None where it was not reached, or where results depend on the calls before."""
    own_kernel_share: float | None = None
    """Share of the GPU time of a call that kernels of the submission's own have; None where no trace could be had, as
    on a CPU."""
    kernels: list[KernelUse] = []
    """Kernels of a call, longest first."""
    left_out: list[str] = []
    """What else was not looked at, and why."""
