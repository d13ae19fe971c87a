"""From a queued submission to its one answer.

    queued --claim--> active attempt --finish--> done
      ^                  |
      +---- lost, up to three attempts; then done, as a failure of ours

An attempt belongs to whoever holds its token, for as long as its lease lasts. What arrives with another token, or after
the attempt was over, changes nothing: a report among it is kept beside the attempt, for people to look at. Every change
of a submission's state happens under a lock on its row, so two of them can't both find it unanswered.

All functions take the session of a write transaction and the time.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session, undefer

from harness.load.submission import FILE_NAME
from harness.report import ProblemInfo, Reason, Report, SubmissionInfo, Verdict
from harness.version import VERSION
from server.keys import digest
from server.results import keep_result
from server.store import Agent, Attempt, Event, Submission, User
from server.store.models import AT_WORK, ENDED, AttemptState, State

MAX_ATTEMPTS = 3
"""The first, and two more after an agent's death."""

_TURNS = 64
"""So many users' turns are looked at, should other agents be taking the submissions of the first ones."""
Standing = Literal["active", "cancelled", "over"]
_BUILD_STAGES = ("load", "build")


class UnknownAttempt(Exception):
    """There is no such attempt, or the token is not its own."""


class WrongReport(Exception):
    """A report about something else than what was claimed. The message says what."""


@dataclass(frozen=True)
class Claim:
    """What an agent gets."""

    attempt_id: int
    token: str
    submission: Submission


def claim(
    session: Session, agent: Agent, versions: Mapping[str, str], now: float, *, lease_s: float, away_s: float
) -> Claim | None:
    """The next submission for this agent, if any: by priority, then whose user waited longest, then by age.

    `versions` are the problems that the server has now; an agent that has another version of one gets none of it.
    """
    open_to = _open_to(session, agent, versions, now - away_s)
    submission = None if open_to is None else _next(session, open_to)
    if submission is None:
        return None
    user = session.get_one(User, submission.user_id)
    user.last_served = now
    submission.state = State.BUILDING
    submission.attempts += 1
    submission.problem_version = versions[submission.problem_id]
    token = secrets.token_urlsafe(32)
    attempt = Attempt(
        submission_number=submission.number,
        number=submission.attempts,
        agent_id=agent.id,
        token_digest=digest(token),
        state=AttemptState.ACTIVE,
        claimed_at=now,
        lease_until=now + lease_s,
        events_taken=0,
    )
    session.add(attempt)
    session.flush()
    add_event(session, submission, "claimed", {"attempt": attempt.number, "device": agent.device_name}, now)
    return Claim(attempt.id, token, submission)


def is_work(session: Session, agent: Agent, versions: Mapping[str, str], now: float, *, away_s: float) -> bool:
    """Whether `claim` would find something; changes nothing."""
    open_to = _open_to(session, agent, versions, now - away_s)
    return open_to is not None and bool(session.scalar(select(exists().where(*open_to))))


def _open_to(
    session: Session, agent: Agent, versions: Mapping[str, str], heard_since: float
) -> list[ColumnElement[bool]] | None:
    """Which submissions an agent may have; None: none at all."""
    has: Mapping[str, str] = json.loads(agent.problems)
    usable = [name for name, version in versions.items() if has.get(name) == version]
    if agent.refused is not None or not usable:
        return None
    fits = Submission.device_kind == agent.kind
    if agent.kind == "cuda" or not _gpu_is_there(session, heard_since):
        fits = or_(fits, Submission.device_kind.is_(None))
    return [Submission.state == State.QUEUED, Submission.problem_id.in_(usable), fits]


def _next(session: Session, open_to: list[ColumnElement[bool]]) -> Submission | None:
    """The one whose turn it is, locked."""
    oldest = func.min(Submission.number).label("oldest")
    lines = (
        select(Submission.priority, Submission.user_id, oldest)
        .where(*open_to)
        .group_by(Submission.priority, Submission.user_id)
        .subquery()
    )
    turns = (
        select(lines.c.priority, lines.c.user_id)
        .join(User, User.id == lines.c.user_id)
        .order_by(lines.c.priority.desc(), User.last_served, lines.c.oldest)
        .limit(_TURNS)
    )
    for priority, user_id in session.execute(turns).all():
        first = (
            select(Submission)
            .options(undefer(Submission.source))
            .where(*open_to, Submission.priority == priority, Submission.user_id == user_id)
            .order_by(Submission.number)
            .limit(1)
        )
        # Another agent may be taking it just now; then the next one is ours.
        found = session.scalar(first.with_for_update(of=Submission, skip_locked=True))
        if found is not None:
            return found
    return None


def _gpu_is_there(session: Session, since: float) -> bool:
    gpu = and_(Agent.kind == "cuda", Agent.last_seen >= since, Agent.refused.is_(None), Agent.left_at.is_(None))
    return bool(session.scalar(select(exists().where(gpu))))


def add_event(session: Session, submission: Submission, kind: str, data: Mapping[str, Any], now: float) -> None:
    """One more line of the submission's stream. The caller holds its row."""
    submission.events += 1
    text = json.dumps(data, allow_nan=False)
    session.add(Event(submission_number=submission.number, number=submission.events, at=now, kind=kind, data=text))


def locked(session: Session, number: int) -> Submission:
    """The submission, which nobody else changes until the transaction ends."""
    return session.scalars(
        select(Submission)
        .where(Submission.number == number)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()


def _held(session: Session, attempt_id: int, token: str) -> tuple[Attempt, Submission]:
    number = session.scalar(select(Attempt.submission_number).where(Attempt.id == attempt_id))
    if number is None:
        raise UnknownAttempt
    submission = locked(session, number)
    attempt = session.get_one(Attempt, attempt_id, populate_existing=True)
    if not hmac.compare_digest(attempt.token_digest, digest(token)):
        raise UnknownAttempt
    return attempt, submission


def _standing(attempt: Attempt) -> Standing:
    if attempt.state == AttemptState.ACTIVE:
        return "active"
    return "cancelled" if attempt.state == AttemptState.CANCELLED else "over"


def renew(
    session: Session,
    attempt_id: int,
    token: str,
    now: float,
    *,
    lease_s: float,
    first: int = 1,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> Standing:
    """The agent is alive, and tells what happened; `first` is the number of the first of these events in the attempt.

    Once a lease has run out it isn't renewed any more, whether or not somebody has looked already.
    """
    attempt, submission = _held(session, attempt_id, token)
    if attempt.state == AttemptState.ACTIVE and attempt.lease_until < now:
        _lose(session, attempt, submission, "its lease ran out", now)
    if attempt.state != AttemptState.ACTIVE:
        return _standing(attempt)
    attempt.lease_until = now + lease_s
    for number, (kind, data) in enumerate(events, first):
        if number <= attempt.events_taken:
            continue
        attempt.events_taken = number
        if kind == "stage_started":
            submission.state = State.BUILDING if data.get("stage") in _BUILD_STAGES else State.RUNNING
        add_event(session, submission, kind, data, now)
    return "active"


def finish(session: Session, attempt_id: int, token: str, report: Report, now: float) -> bool:
    """The attempt's answer; whether it counts. Raises WrongReport for one about something else."""
    attempt, submission = _held(session, attempt_id, token)
    text = report.model_dump_json()
    if attempt.state == AttemptState.REPORTED and submission.report == text:
        return True  # the first answer did not reach the agent, which repeats its report
    if attempt.state == AttemptState.ACTIVE and attempt.lease_until < now:
        _lose(session, attempt, submission, "its lease ran out", now)
    if attempt.state != AttemptState.ACTIVE:
        attempt.late_report = attempt.late_report or text
        return False
    _check_subject(submission, report)
    attempt.state, attempt.ended_at = AttemptState.REPORTED, now
    _answer(session, submission, report, text, now)
    return True


def give_up(session: Session, attempt_id: int, token: str, why: str, now: float) -> None:
    """The agent can't go on with it: as if it had died, only known at once."""
    attempt, submission = _held(session, attempt_id, token)
    if attempt.state == AttemptState.ACTIVE:
        _lose(session, attempt, submission, why, now)


def expire(session: Session, now: float) -> list[str]:
    """Take back every attempt whose lease has run out; the ids of the submissions that this changed."""
    overdue = session.execute(
        select(Attempt.id, Attempt.submission_number).where(
            Attempt.state == AttemptState.ACTIVE, Attempt.lease_until < now
        )
    ).all()
    changed = []
    for attempt_id, number in overdue:
        submission = locked(session, number)
        attempt = session.get_one(Attempt, attempt_id, populate_existing=True)
        if attempt.state == AttemptState.ACTIVE and attempt.lease_until < now:
            _lose(session, attempt, submission, "its lease ran out", now)
            changed.append(submission.id)
    return changed


def cancel(session: Session, number: int, now: float) -> bool:
    """End a submission without an answer; False when it has one already."""
    submission = locked(session, number)
    if submission.state == State.CANCELLED:
        return True
    if submission.state == State.DONE:
        return False
    active = select(Attempt).where(Attempt.submission_number == number, Attempt.state == AttemptState.ACTIVE)
    for attempt in session.scalars(active):
        attempt.state, attempt.ended_at = AttemptState.CANCELLED, now
    submission.state, submission.done_at = State.CANCELLED, now
    add_event(session, submission, "cancelled", {}, now)
    return True


def _lose(session: Session, attempt: Attempt, submission: Submission, why: str, now: float) -> None:
    attempt.state, attempt.ended_at, attempt.why = AttemptState.LOST, now, why
    if submission.state not in AT_WORK:
        return
    if attempt.number < MAX_ATTEMPTS:
        submission.state = State.QUEUED
        add_event(session, submission, "requeued", {"attempt": attempt.number}, now)
    else:
        report = _all_lost(submission, now)
        _answer(session, submission, report, report.model_dump_json(), now)


def _answer(session: Session, submission: Submission, report: Report, text: str, now: float) -> None:
    if submission.state in ENDED:
        raise AssertionError("a submission has one answer")
    submission.state, submission.done_at = State.DONE, now
    submission.verdict, submission.reason_code = report.verdict, report.reason.code
    submission.report = text
    session.flush()
    keep_result(session, submission, report, now)
    add_event(session, submission, "done", {"verdict": report.verdict, "reason": report.reason.code}, now)


def _check_subject(submission: Submission, report: Report) -> None:
    told = (report.submission.sha256, report.mode)
    if told != (submission.source_sha256, submission.mode):
        raise WrongReport("the report is about another text, or of another mode, than was claimed")
    problem = report.problem
    if problem is None or (problem.id, problem.version) != (submission.problem_id, submission.problem_version):
        raise WrongReport("the report is about another problem, or another version of it, than was claimed")
    if submission.workload is not None and problem.workload != submission.workload:
        raise WrongReport("the report is about another workload than was claimed")
    if submission.device_kind is not None and (report.device is None or report.device.kind != submission.device_kind):
        raise WrongReport("the report is about another kind of device than was claimed")


def _all_lost(submission: Submission, now: float) -> Report:
    """The answer to a submission whose agents all went away while they had it."""
    return Report(
        harness_version=VERSION,
        created_at=datetime.fromtimestamp(now, UTC),
        mode=submission.mode,  # type: ignore[arg-type]  # checked when it came in
        verdict=Verdict.JUDGE_ERROR,
        reason=Reason(
            code="judge.agents_lost",
            message=f"All {MAX_ATTEMPTS} attempts ended without an answer, because the agents that had them went away. "
            "This says nothing about the submission: hand it in again, or ask whoever runs the server to look.",
        ),
        problem=ProblemInfo(id=submission.problem_id, version=submission.problem_version, workload=""),
        submission=SubmissionInfo(path=None, name=submission.file_name or FILE_NAME, sha256=submission.source_sha256),
    )
