"""What requests and answers look like."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from harness.load.submission import FILE_NAME
from server.queue import AgentsHere, Waiting, WaitsFor
from server.redact import for_solver
from server.services import Services
from server.store import Submission
from server.store.models import State

Mode = Literal["run", "check", "profile"]
DeviceKind = Literal["cpu", "cuda"]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("only characters that can be printed on one line")
    return text


Printable = Annotated[str, AfterValidator(_printable)]
Label = Annotated[Printable, Field(max_length=100)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class NewSubmission(_Model):
    """A source to grade."""

    problem: Name
    """The problem's id."""
    source: Annotated[str, Field(max_length=1 << 20)]
    """The text of a Python file with a class ModelNew; 1 MiB as UTF-8 at most."""
    device: DeviceKind | None = None
    """What to grade on; without it a GPU where there is one, else the CPU."""
    workload: Name | None = None
    """One of the problem's workloads; without it the default of the device."""
    mode: Mode = "run"
    """run checks and times; check leaves timing out; profile checks, and shows where the time of a call goes."""
    label: Label = ""
    """A short name for lists."""
    file_name: Annotated[str, Field(max_length=255)] = ""
    """What messages call the source. Letters, digits, spaces and `_.+-`, 100 at most; what is none of that is left
    out, and then the label is taken where it is such a name, else `submission.py`."""
    priority: Annotated[int, Field(ge=-10, le=10)] = 0
    """Higher ones go first. Above 0 only for admins."""


class SubmissionLinks(_Model):
    """Where to go on."""

    self: str
    events: str
    source: str
    log: str
    page: str


class SubmissionView(_Model):
    """A submission, as far as it got."""

    id: str
    problem: str
    problem_version: str
    device: DeviceKind | None
    workload: str | None
    mode: Mode
    label: str
    file_name: str
    """What messages call the source."""
    user: str
    source_sha256: str
    priority: int
    state: Literal["queued", "building", "running", "done", "cancelled"]
    queue_place: int | None
    """1: the next to be taken; null when it does not wait."""
    waits_for: WaitsFor | None
    """The kind of device that it waits for because no agent with one, and with this problem, is here now; it is taken
    when one comes. null: one is here, or it does not wait. Always null in lists."""
    attempts: int
    """How often an agent took it. More than one: an agent went away with it."""
    created_at: datetime
    done_at: datetime | None
    verdict: str | None
    reason_code: str | None
    regrade_of: str | None
    links: SubmissionLinks
    report: dict[str, Any] | None = None
    """As docs/report.md describes it, when it is done; left out of lists. Solvers see no seed and no values."""


class SubmissionPage(_Model):
    """Some submissions, newest first."""

    items: list[SubmissionView]
    next_cursor: str | None
    """For the next page; null on the last one."""


def when(seconds: float) -> datetime:
    """A time of the store."""
    return datetime.fromtimestamp(seconds, UTC)


def whole_view(
    session: Session, serving: Services, submission: Submission, user: str, *, admin: bool
) -> SubmissionView:
    """What is told of a submission, with what it waits for and its report."""
    report = None
    if submission.report is not None:
        report = json.loads(submission.report)
        report = report if admin else for_solver(report)
    place = waits_for = None
    if submission.state == State.QUEUED:
        place = Waiting(session, serving.queue, {submission.user_id}).place(submission)
        waits_for = serving.waits_for(submission, AgentsHere(session))
    return view(submission, user, place=place, waits_for=waits_for, report=report)


def view(
    submission: Submission,
    user: str,
    *,
    place: int | None = None,
    waits_for: WaitsFor | None = None,
    report: dict[str, Any] | None = None,
) -> SubmissionView:
    """What is told of a submission, for lists without those three."""
    base = f"/v1/submissions/{submission.id}"
    return SubmissionView(
        id=submission.id,
        problem=submission.problem_id,
        problem_version=submission.problem_version,
        device=submission.device_kind,  # type: ignore[arg-type]  # checked when it came in
        workload=submission.workload,
        mode=submission.mode,  # type: ignore[arg-type]
        label=submission.label,
        file_name=submission.file_name or FILE_NAME,
        user=user,
        source_sha256=submission.source_sha256,
        priority=submission.priority,
        state=submission.state,  # type: ignore[arg-type]
        queue_place=place,
        waits_for=waits_for,
        attempts=submission.attempts,
        created_at=when(submission.created_at),
        done_at=None if submission.done_at is None else when(submission.done_at),
        verdict=submission.verdict,
        reason_code=submission.reason_code,
        regrade_of=submission.regrade_of,
        links=SubmissionLinks(
            self=base,
            events=f"{base}/events",
            source=f"{base}/source",
            log=f"{base}/log",
            page=f"/submissions/{submission.id}",
        ),
        report=report,
    )
