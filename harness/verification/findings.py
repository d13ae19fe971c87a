"""What verifying a problem says, as data: findings with codes, and the figures they rest on."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harness.report import DeviceInfo

SCHEMA_VERSION = 1

Severity = Literal["error", "warning", "note"]

CODES = {
    "folder.malformed": "problem.toml or reference.py can't be used",
    "folder.statement": "there is no README.md, or it is empty",
    "folder.default_workload": "a default workload is meant for another kind of device, or is never timed",
    "reference.fails": "the reference raises, or returns what can't be graded against",
    "reference.not_finite": "its output holds NaN or infinity",
    "reference.mutates": "it changes its inputs, which the problem forbids submissions to do",
    "reference.nothing": "its output has no element to compare",
    "repeat.inputs": "the same seed makes other inputs",
    "repeat.fixed_inputs": "every seed makes the same inputs",
    "repeat.parameters": "the same seed makes other parameters",
    "repeat.output": "the same call gives a result outside the tolerance",
    "repeat.rounding": "the same call gives another result, within the tolerance",
    "answer.zeros": "zeros pass",
    "answer.ones": "ones pass",
    "answer.mean": "the output's mean everywhere passes",
    "answer.input": "an input passes",
    "answer.previous": "the output of another input passes",
    "answer.permuted": "the output moved by one along a dimension passes",
    "answer.half": "the output rounded to half precision passes",
    "answer.rows": "the output without its last row passes",
    "answer.element": "an output with one element off by three tolerances passes",
    "moves.input": "an input has no effect beyond the tolerance",
    "moves.parameter": "a parameter has no effect beyond the tolerance",
    "moves.neutral": "a parameter is all ones or all zeros: forgetting it makes no difference",
    "moves.neutral_declared": "a parameter is all ones or all zeros, and the problem says why",
    "moves.declared": "an input or a parameter has no effect, and the problem says why",
    "moves.declared_wrongly": "[verify] names what does move the output, what is not neutral, or what there isn't",
    "room.none": "an honest computation may be outside the tolerance",
    "room.tight": "an honest computation comes close to the tolerance",
    "room.integers": "an exact leaf depends on how sums are rounded",
    "floor.none": "the problem states no floor",
    "floor.bytes": "the floor counts more bytes than the tensors have",
    "floor.above_time": "an accepted or a reference's time is below the floor",
    "cost.call": "a call of the reference takes longer than limits.call_s",
    "cost.slow": "a call of the reference takes longer than a grading should wait",
    "cost.construct": "constructing the reference takes longer than limits.construct_s",
    "cost.memory": "the reference needs more memory than limits.memory_gb, or nearly as much",
    "example.none": "no submission is given for the problem",
    "example.none_accepted": "no submission for this kind of device is to be accepted",
    "example.malformed": "expected.toml can't be used",
    "example.otherwise": "a submission ended otherwise than expected.toml says",
}
"""Every code, and what it says in a line; docs/writing-a-problem.md explains them."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings")


class Finding(_Model):
    """One thing that was found about a problem."""

    code: str
    """`area.what`, stable, for programs: a key of CODES."""
    severity: Severity
    """`error`: gradings can't be relied on; `warning`: look at it; `note`: to be known."""
    message: str
    """One or two plain sentences: what is so, and what to do."""
    evidence: dict[str, Any] = {}
    """The values behind the message."""

    @field_validator("code")
    @classmethod
    def _known(cls, code: str) -> str:
        if code not in CODES:
            raise ValueError(f"{code!r} is no code of a finding")
        return code


class Answer(_Model):
    """How one trivial answer fared on one leaf of the output."""

    name: str
    """The answer, as in `answer.NAME`."""
    detail: str = ""
    """Which of several: the input, the dimension, the format."""
    path: str
    """The leaf."""
    refused_by: Literal["tolerance", "form", "precision"] | None
    """What refused it; None: it passed."""
    identical: bool = False
    """Whether it is the right answer, to the bit, in every trial."""
    fraction_outside: float | None = None
    """The largest share of elements outside the tolerance over the trials; None where another form was refused."""


class Moved(_Model):
    """What one input or parameter does to the output."""

    name: str
    """`inputs[0]`, or a parameter's name."""
    kind: Literal["input", "parameter"]
    """What it is."""
    change: float
    """The largest change of an element of the output over the tolerance there: above 1 it can be told."""


class Room(_Model):
    """The room that the tolerance leaves on one leaf."""

    path: str
    """The leaf."""
    factor: float | None
    """How many times the errors of the reference and of another honest computation, added, fit into the tolerance less
    a step of the leaf's dtype, at the tightest element; None where there were no errors at all."""
    reference_error: float
    """The reference's largest error against a float64 run, beyond the last rounding, over what is left there."""
    other_error: float
    """The same for runs whose numbers are moved by up to half a step of `precision`."""
    precision: str
    """The arithmetic that a submission may use for this leaf."""


class Cost(_Model):
    """What the reference takes in one workload."""

    workload: str
    """Its name."""
    construct_s: float
    """Constructing the model, seconds."""
    call_s: float
    """The median of the calls that were made, seconds."""
    memory_bytes: int | None
    """The most memory in use during a call: of this process on a CPU, of the device on a GPU; None: not known."""
    tensor_bytes: int
    """Inputs, parameters, buffers and outputs together."""


class Example(_Model):
    """One submission of expected.toml."""

    file: str
    """Relative to the folder of expected.toml."""
    device: Literal["cuda", "cpu"]
    """The kind of device that the entry is about."""
    workload: str | None
    """None: the problem's default."""
    expected: tuple[str, str]
    """Verdict and reason that it must end with."""
    got: tuple[str, str] | None = None
    """Verdict and reason that it ended with; None: not run."""
    message: str = ""
    """The reason in words; of one that was not run, why."""
    median_us: float | None = None
    """Its time, microseconds, where it was timed."""
    reference_us: float | None = None
    """The reference's."""
    floor_us: float | None = None
    """The floor, where there is one."""

    @property
    def as_expected(self) -> bool | None:
        """None: not run."""
        return None if self.got is None else self.got == self.expected


class Verification(_Model):
    """All that was found about one problem."""

    schema_version: int = SCHEMA_VERSION
    """Version of this document's shape."""
    harness_version: str
    """Version of the grader."""
    created_at: datetime
    """When it ended, UTC."""
    path: str
    """The problem as it was named."""
    problem: str | None = None
    """Its id; None where it could not be read."""
    version: str | None = None
    """Its version, as in a report."""
    device: DeviceInfo
    """What it was verified on."""
    workload: str | None = None
    """The workload on which answers, inputs and room were looked at."""
    also: list[str] = []
    """Further workloads in which the reference was run."""
    findings: list[Finding] = []
    """Errors first, then warnings, then notes."""
    answers: list[Answer] = []
    """Every trivial answer on every leaf."""
    moved: list[Moved] = []
    """Every input and parameter that was changed."""
    room: list[Room] = []
    """Every leaf that has a tolerance."""
    costs: list[Cost] = []
    """Of each workload that was run."""
    examples: list[Example] = []
    """Every submission that expected.toml gives the problem."""
    left_out: list[str] = []
    """What was not looked at, and why."""
    seed: str
    """With it the same inputs are drawn again."""
    seconds: float = Field(ge=0)
    """What it took."""

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of one severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def good(self, *, werror: bool = False) -> bool:
        """Whether there is no error and, with `werror`, no warning either."""
        return not self.of("error") and not (werror and self.of("warning"))
