"""Submissions as their users see them: handed in, listed, their place in the queue."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from server.jobs import add_event
from server.store import Database, Submission, User
from server.store.models import AT_WORK, ENDED, State


class QueueFull(Exception):
    """The user has as many submissions waiting as they may."""


class KeyReused(Exception):
    """An Idempotency-Key came again with another request."""


@dataclass(frozen=True)
class Order:
    """What somebody wants graded."""

    problem_id: str
    problem_version: str
    source: bytes
    mode: str
    label: str
    device_kind: str | None = None
    workload: str | None = None
    priority: int = 0
    regrade_of: str | None = None

    def digest(self) -> str:
        """Equal for equal requests, whatever version the problem has meanwhile."""
        told = {**asdict(self), "source": hashlib.sha256(self.source).hexdigest(), "problem_version": None}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def hand_in(
    database: Database, user_id: int, order: Order, now: float, *, max_queued: int | None, key: str | None = None
) -> Submission:
    """Put it in the queue; durable when this returns. The same `key` again gives the same submission.

    Raises QueueFull and KeyReused.
    """
    try:
        with database.write() as session:
            return _earlier(session, user_id, order, key) or add(session, user_id, order, now, max_queued, key)
    except IntegrityError:
        # The same request came twice at the same time, and the other one was first.
        with database.read() as session:
            earlier = _earlier(session, user_id, order, key)
        if earlier is None:
            raise
        return earlier


def _earlier(session: Session, user_id: int, order: Order, key: str | None) -> Submission | None:
    if key is None:
        return None
    found = session.scalar(select(Submission).where(Submission.user_id == user_id, Submission.idempotency_key == key))
    if found is not None and found.request_digest != order.digest():
        raise KeyReused
    return found


def add(
    session: Session, user_id: int, order: Order, now: float, max_queued: int | None, key: str | None
) -> Submission:
    """The same within a transaction, without looking for an earlier one. Raises QueueFull."""
    if max_queued is not None:
        # The user's row is held meanwhile, or two requests at once could both take the last place.
        session.execute(select(User.id).where(User.id == user_id).with_for_update())
        unfinished = select(func.count()).where(Submission.user_id == user_id, Submission.state.not_in(ENDED))
        if (session.scalar(unfinished) or 0) >= max_queued:
            raise QueueFull
    submission = Submission(
        id=secrets.token_hex(10),
        user_id=user_id,
        problem_id=order.problem_id,
        problem_version=order.problem_version,
        workload=order.workload,
        device_kind=order.device_kind,
        mode=order.mode,
        label=order.label,
        source=order.source,
        source_sha256=hashlib.sha256(order.source).hexdigest(),
        priority=order.priority,
        state=State.QUEUED,
        created_at=now,
        attempts=0,
        events=0,
        idempotency_key=key,
        request_digest=None if key is None else order.digest(),
        regrade_of=order.regrade_of,
    )
    session.add(submission)
    session.flush()
    add_event(session, submission, "queued", {}, now)
    return submission


def place(session: Session, submission: Submission) -> int | None:
    """How many claims from now it is taken, counted from 1, if nothing else comes in; None when it doesn't wait.

    Users are served in turn, so before it go: whatever has a higher priority, its user's own older ones, and of every
    other user as many as get their turn meanwhile.
    """
    if submission.state != State.QUEUED:
        return None
    waiting = (Submission.state == State.QUEUED, Submission.priority == submission.priority)
    own = session.scalar(
        select(func.count()).where(
            *waiting, Submission.user_id == submission.user_id, Submission.number < submission.number
        )
    )
    own = own or 0
    higher = select(func.count()).where(Submission.state == State.QUEUED, Submission.priority > submission.priority)
    before = (session.scalar(higher) or 0) + own
    served = session.get_one(User, submission.user_id).last_served
    others = session.execute(
        select(User.last_served, func.count(), func.min(Submission.number))
        .join(Submission, Submission.user_id == User.id)
        .where(*waiting, User.id != submission.user_id)
        .group_by(User.id, User.last_served)
    )
    for last_served, count, oldest in others:
        goes_first = (last_served, oldest) < (served, submission.number)
        before += min(count, own + (1 if goes_first else 0))
    return before + 1


def listing(
    session: Session,
    *,
    user_id: int | None,
    problem: str | None,
    state: str | None,
    verdict: str | None,
    before: int | None,
    limit: int,
) -> tuple[list[tuple[Submission, str]], int | None]:
    """A page of submissions with their users' names, newest first, and where the next page begins."""
    wanted = select(Submission, User.name).join(User, User.id == Submission.user_id)
    for column, value in (
        (Submission.user_id, user_id),
        (Submission.problem_id, problem),
        (Submission.state, state),
        (Submission.verdict, verdict),
    ):
        if value is not None:
            wanted = wanted.where(column == value)
    if before is not None:
        wanted = wanted.where(Submission.number < before)
    rows = session.execute(wanted.order_by(Submission.number.desc()).limit(limit + 1)).all()
    page = [(submission, name) for submission, name in rows[:limit]]
    return page, page[-1][0].number if len(rows) > limit else None


def depth(session: Session) -> dict[str, int]:
    """How many submissions wait and how many are at work."""
    rows = session.execute(
        select(Submission.state, func.count())
        .where(Submission.state.in_((State.QUEUED, *AT_WORK)))
        .group_by(Submission.state)
    )
    found = {str(state): 0 for state in (State.QUEUED, *AT_WORK)}
    for state, count in rows:
        found[state] = count
    return found
