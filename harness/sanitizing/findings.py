"""Findings as they leave: each mistake once, with its place in the submission, how often, and where first."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.report import DeviceInfo, SubmissionInfo

SCHEMA_VERSION = 1

Kind = Literal[
    "out_of_bounds_read",
    "out_of_bounds_write",
    "misaligned_access",
    "shared_memory_race",
    "uninitialized_read",
    "barrier_error",
    "device_heap_error",
    "other",
]
KINDS: dict[Kind, str] = {
    "out_of_bounds_read": "memory is read that belongs to nothing, or no longer",
    "out_of_bounds_write": "memory is written (also by an atomic operation) that belongs to nothing, or no longer",
    "misaligned_access": "an address is no multiple of the size that is read or written there",
    "shared_memory_race": "two threads use the same shared memory, one of them writes, and nothing orders them",
    "uninitialized_read": "device memory is read that nobody has written",
    "barrier_error": "a barrier that not all threads reach that must, or with arguments that don't fit",
    "device_heap_error": "malloc or free in a kernel used wrongly",
    "other": "whatever else compute-sanitizer reports; its own words say what",
}
"""Every kind, and what it says in a line; docs/sanitizing.md explains them."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Place(_Model):
    """A line of device code."""

    function: str
    """The function of the device's that it is in, demangled."""
    file: str | None = None
    """`cuda_sources` as a build's diagnostics have it, the submission's own name for Triton, or the name of a header;
    None without line info."""
    line: int | None = None
    """Line of that file or text, from 1."""
    submission_line: int | None = None
    """The same as a line of the submission's file, where the text is one string of it."""
    text: str | None = None
    """What stands there."""
    access: str = ""
    """What is done there: read, write or atomic, where that was told of the place."""


class Finding(_Model):
    """One mistake."""

    tool: str
    """memcheck, racecheck, initcheck or synccheck."""
    kind: Kind
    """A key of KINDS."""
    kernel: str
    """The kernel, demangled."""
    message: str
    """compute-sanitizer's own first line, and what it says of the address."""
    place: Place | None
    """Where; None where it names no place."""
    others: list[Place] = []
    """The other places of a race."""
    called_from: list[Place] = []
    """From the inside out, where the place is in a function that the kernel calls."""
    thread: tuple[int, int, int] | None = None
    """threadIdx of the first occurrence; None where it is not told, as for races."""
    block: tuple[int, int, int] | None = None
    """blockIdx of the first occurrence."""
    access: str = ""
    """read, write or atomic."""
    memory: str = ""
    """global, shared or local."""
    size_bytes: int | None = None
    """Bytes of one access."""
    count: int
    """How often it was reported; for a race, in how many bytes and pairs of threads."""
    severity: str = ""
    """error or warning, where the tool tells them apart."""


class Aside(_Model):
    """Reports that are not held against the submission."""

    kind: Kind
    """What was reported."""
    kernel: str
    """A kernel of a library's, which the submission did not bring."""
    count: int
    """How often."""


class ToolRun(_Model):
    """What one tool found."""

    tool: str
    """Its name."""
    findings: list[Finding] = []
    """In the order in which they were first reported."""
    aside: list[Aside] = []
    """What was reported about kernels of libraries."""
    reported: int
    """Reports in all, before those of one mistake were put together."""
    cut: bool = False
    """Whether more was reported than is printed, so that counts are too low and a mistake may be missing."""
    ended: bool = True
    """Whether the call came to its end and the tool said so: without it there may be more to find."""
    notes: list[str] = []
    """What the tool says about itself."""
    failure: str | None = None
    """What the submission did when it did not come to its end: an exception, often because of a finding."""
    printed: str = ""
    """The beginning of what compute-sanitizer printed, as it was."""
    seconds: float = Field(ge=0)
    """What it took."""


class Sanitizing(_Model):
    """All that was found about one submission."""

    schema_version: int = SCHEMA_VERSION
    """Version of this document's shape."""
    harness_version: str
    """Version of the grader."""
    created_at: datetime
    """When it ended, UTC."""
    problem: str
    """The problem's id."""
    workload: str
    """What was called."""
    workload_why: str
    """Why this one."""
    submission: SubmissionInfo
    """Which submission."""
    device: DeviceInfo
    """What it ran on."""
    sanitizer: str
    """compute-sanitizer's version."""
    runs: list[ToolRun]
    """One for each tool, in the order in which they ran."""
    log: str = ""
    """What the submission and its compilers printed, capped."""
    seconds: float = Field(ge=0)
    """What it all took."""

    @property
    def findings(self) -> list[Finding]:
        """Of all tools."""
        return [finding for run in self.runs for finding in run.findings]

    @property
    def clean(self) -> bool:
        """Whether every tool came to its end and found nothing."""
        return all(run.ended and not run.findings for run in self.runs)
