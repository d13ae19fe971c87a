"""What the stages found out: the only thing that a verdict is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from harness.audit.findings import Audit
from harness.build.outcome import BuildOutcome
from harness.check.compare import FormError
from harness.load.submission import SubmissionError
from harness.report import LeafReport, RankedScore, Steadiness, Timing, Warning_
from harness.workers.worker import WorkerFailure


@dataclass(frozen=True)
class Shared:
    """Memory that is written to by more than one name."""

    path: str
    """The output leaf."""
    other: Literal["input", "output"]
    """What it shares memory with: an input of the call, or another output, of this call or another."""


@dataclass
class Evidence:
    """Filled in the order of the stages; a stage that found a reason to stop leaves the rest as it is."""

    mode: Literal["run", "check", "compile", "profile"] = "run"
    """As in the report."""
    device: Literal["cuda", "cpu"] = "cuda"
    """What it runs on."""
    internal: str | None = None
    """A traceback of our own."""
    invalid: SubmissionError | None = None
    """The text is no submission."""
    builds: list[BuildOutcome] = field(default_factory=list)
    """Every extension that was asked for."""
    failure: WorkerFailure | None = None
    """How the submission's process failed."""
    form: FormError | None = None
    """The output has the wrong structure, type, dtype, shape or device."""
    early: list[LeafReport] = field(default_factory=list)
    """Outputs as they were on the caller's stream when the call returned, the worst over all trials."""
    live: list[LeafReport] = field(default_factory=list)
    """The same outputs after the last of the calls had returned."""
    mutated: list[LeafReport] = field(default_factory=list)
    """Inputs that were not the same after the call."""
    timed: list[LeafReport] = field(default_factory=list)
    """Outputs of timed calls."""
    output_changed: bool = False
    """An output of a timed call was not, when it was looked at, what it had been when the clock stopped."""
    workload: str | None = None
    """The workload that was looked at last; None while it is the only one that is graded."""
    ranks: tuple[str, ...] = ()
    """The workloads that rank, where there are several."""
    ranking: RankedScore | None = None
    """What they come to; None as long as not all of them were timed and right."""
    timing: Timing | None = None
    """None when it was not reached."""
    unsteady: Steadiness | None = None
    """What the device did while it was timed, if that was too unsteady, too often, to say anything of times."""
    audited: list[LeafReport] = field(default_factory=list)
    """Outputs of the audit's calls on the problem's own inputs, where they were wrong."""
    unrepeatable: list[LeafReport] = field(default_factory=list)
    """Outputs of a second call on the same input, where the first was right and this one wrong."""
    shared: Shared | None = None
    """Memory that an output shares with what it must not."""
    trace_prevented: bool = False
    """No trace of the submission's kernels could be had, and one of the reference's could."""
    own_kernel_share: float | None = None
    """Least share of the GPU time that the problem asks the submission's own kernels to have."""
    audit: Audit | None = None
    """None when it was not reached."""
    warnings: list[Warning_] = field(default_factory=list)
    """What else was noticed."""

    def go_on(self, workload: str, leaves: list[LeafReport]) -> None:
        """To the next of several workloads, whose outputs were checked already: what was found of the one before is
        not held against it."""
        self.workload, self.early = workload, leaves
        self.live, self.mutated, self.timed, self.audited, self.unrepeatable = [], [], [], [], []
        self.timing = self.unsteady = self.shared = self.audit = None
        self.output_changed = False
