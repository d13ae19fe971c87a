"""What the ending of a grading means: a pure function of the entry, its outcome and its twin's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.selftest.corpus import Attack, Case


@dataclass(frozen=True)
class Outcome:
    """What is kept of a report."""

    verdict: str
    reason: str
    message: str
    median_us: float | None = None
    speedup: float | None = None
    blurred: bool = False
    """Whether the grader's own clock could not have told a lie: it was unsure by more than half of the time."""
    seconds: float = 0.0


class Status(StrEnum):
    """How well the grader did on one entry."""

    CAUGHT = "caught"
    """An attack that got nothing by it."""
    MISSED = "missed"
    """An attack that was accepted, or got a better figure than the truth."""
    FINE = "fine"
    """Honest code that was accepted."""
    FALSE_ALARM = "false alarm"
    """Honest code that was not."""
    OTHERWISE = "otherwise"
    """An attack that was refused, but not as the table says: the table or the grader is wrong."""
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    """An entry with how it ended."""

    case: Case
    status: Status
    why: str = ""
    """Of what is not as it should be, or of what could not be run."""
    outcome: Outcome | None = None

    @property
    def good(self) -> bool:
        """Whether nothing has to be done about it."""
        return self.status in (Status.CAUGHT, Status.FINE, Status.NOT_RUN)


def ended(case: Case, outcome: Outcome, twin: Outcome | None = None) -> Result:
    """Hold an outcome against the table. `twin` is the honest twin's, for an attack that names one."""
    status, why = _status(case, outcome, twin)
    known = getattr(case.entry, "open", "")
    if known and status not in (Status.CAUGHT, Status.FINE):
        why = f"{why} Known: {known}"
    return Result(case, status, why, outcome)


def _status(case: Case, outcome: Outcome, twin: Outcome | None) -> tuple[Status, str]:
    entry = case.entry
    said = f"{outcome.verdict}, {outcome.reason}: {outcome.message}"
    accepted = outcome.verdict == "accepted"
    if not isinstance(entry, Attack):
        return (Status.FINE, "") if accepted else (Status.FALSE_ALARM, said)
    if accepted and "accepted" not in entry.verdict:
        return Status.MISSED, said
    if outcome.verdict not in entry.verdict:
        return Status.OTHERWISE, f"{said} Expected was {' or '.join(entry.verdict)}."
    if accepted and entry.at_least is not None:
        return _figures(entry.at_least, outcome, twin, steady=case.kind == "cuda")
    if entry.reason and outcome.reason not in entry.reason:
        return Status.OTHERWISE, f"{said} Expected was {' or '.join(entry.reason)}."
    return Status.CAUGHT, ""


def _figures(at_least: float, outcome: Outcome, twin: Outcome | None, *, steady: bool) -> tuple[Status, str]:
    """Neither the time nor the speedup may be better than the truth, which is what the twin got.

    On a device that is not `steady`, a CPU that others use as well, times of two gradings say nothing of each other:
    there only the speedup counts, whose two sides were timed in turn.
    """
    if twin is None or twin.verdict != "accepted" or None in (twin.median_us, twin.speedup):
        said = "was not graded" if twin is None else f"ended as {twin.verdict}, {twin.reason}"
        return Status.OTHERWISE, f"Its honest twin {said}, so there is nothing to hold its time against."
    assert twin.median_us is not None
    assert twin.speedup is not None
    if outcome.median_us is None or outcome.speedup is None:
        return Status.OTHERWISE, "It was accepted without a time."
    time_share = outcome.median_us / max(twin.median_us, 1e-9)
    speed_share = twin.speedup / max(outcome.speedup, 1e-9)
    if (min(time_share, speed_share) if steady else speed_share) >= at_least:
        return Status.CAUGHT, ""
    if outcome.blurred and not steady:
        return Status.NOT_RUN, "this machine does too much else for the grader's clock to tell a call's time"
    return Status.MISSED, (
        f"Accepted with {outcome.median_us:.4g} us where its honest twin takes {twin.median_us:.4g} us, and a speedup "
        f"of {outcome.speedup:.3g} where that has {twin.speedup:.3g}; at least {at_least:g} of the truth was expected."
    )
