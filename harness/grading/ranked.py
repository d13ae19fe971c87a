"""What one workload of a grading came to; several of them where several rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.audit.findings import Audit
from harness.audit.ratios import with_ratios
from harness.check.parameters import Weights
from harness.judge.evidence import Evidence
from harness.load.problem import Workload
from harness.report import Correctness, LeafReport, Timing, WorkloadResult


@dataclass(eq=False)
class Graded:
    """A workload, filled in as the stages go over it."""

    workload: Workload
    weights: Weights = "none"
    trials: int = 0
    """Trials that were compared to the end."""
    leaves: list[LeafReport] = field(default_factory=list)
    verified: int = 0
    """Timed calls whose outputs were compared."""
    timing: Timing | None = None
    audit: Audit | None = None

    def take(self, evidence: Evidence) -> None:
        """Keep what the evidence has of this workload, before it goes on to another."""
        self.leaves, self.timing, self.audit = evidence.early, evidence.timing, evidence.audit

    def correctness(self, also_checked: Sequence[str] = ()) -> Correctness | None:
        """As a report has it; None when nothing was compared."""
        if not self.leaves:
            return None
        return Correctness(
            trials=self.trials,
            trials_asked=self.workload.trials,
            weights=self.weights,
            leaves=with_ratios(self.leaves, self.audit),
            also_checked=list(also_checked),
            timed_calls_verified=self.verified,
        )

    def result(self) -> WorkloadResult:
        """As a report of several has it."""
        return WorkloadResult(
            name=self.workload.name,
            args=dict(self.workload.args),
            correctness=self.correctness(),
            timing=self.timing,
            audit=self.audit,
        )
