"""The queue as its users see it: who waits, a submission's place, lists."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from server.store import Agent, Submission, User
from server.store.models import AT_WORK, State


class Line(NamedTuple):
    """What one user has waiting with one priority."""

    waiting: int
    oldest: int
    newest: int
    """Numbers of submissions."""
    last_served: float


_Lines = dict[int, dict[int, Line]]
"""By priority and user."""
_SHORT = 2000
"""A queue with no more waiting than this is looked at each time."""
_KEPT = 20
"""What was seen of a longer one is kept for so many times as long as the look took, which is then a twentieth of all
time."""


class Queue:
    """Who waits, as of a moment ago where the queue is long. For requests in any thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, short: int = _SHORT) -> None:
        self._clock, self._short, self._lock = clock, short, threading.Lock()
        self._lines: _Lines = {}
        self._until = -math.inf

    def lines(self, session: Session, users: Collection[int]) -> _Lines:
        """All lines; those of `users` as they are now."""
        session.connection()  # before the lock: those who wait for it may have all the others
        with self._lock:  # whoever comes meanwhile finds what this one has read
            began = self._clock()
            if began >= self._until:
                self._lines = _read(session, None)
                ended = self._clock()
                waiting = sum(line.waiting for of_users in self._lines.values() for line in of_users.values())
                self._until = ended + _KEPT * (ended - began) if waiting > self._short else -math.inf
                return self._lines
            kept = self._lines
        now = _read(session, users)
        lines: _Lines = {}
        for priority in kept.keys() | now.keys():
            others = {user: line for user, line in kept.get(priority, {}).items() if user not in users}
            lines[priority] = others | now.get(priority, {})
        return lines


def _read(session: Session, users: Collection[int] | None) -> _Lines:
    """Of these users, or of all."""
    of_whom = [] if users is None else [Submission.user_id.in_(users)]
    lines = (
        select(
            Submission.priority,
            Submission.user_id,
            func.count().label("waiting"),
            func.min(Submission.number).label("oldest"),
            func.max(Submission.number).label("newest"),
        )
        .where(Submission.state == State.QUEUED, *of_whom)
        .group_by(Submission.priority, Submission.user_id)
        .subquery()
    )
    wanted = select(lines, User.last_served).join(User, User.id == lines.c.user_id)
    found: _Lines = {}
    # The connection, not the session: there may be a thousand rows, and none of them is an object.
    for priority, user_id, *line in session.connection().execute(wanted):
        found.setdefault(priority, {})[user_id] = Line(*line)
    return found


class Waiting:
    """The places of these users' submissions, at one moment."""

    def __init__(self, session: Session, queue: Queue, users: Collection[int]) -> None:
        self._session = session
        self._by_priority = queue.lines(session, users)

    def place(self, submission: Submission) -> int | None:
        """How many claims from now it is taken, counted from 1, if nothing else comes in; None when it doesn't wait.

        Users are served in turn, so before it go: whatever has a higher priority, its user's own older ones, and of
        every other user as many as get their turn meanwhile.
        """
        number, of_user = submission.number, submission.user_id
        lines = self._by_priority.get(submission.priority, {})
        if submission.state != State.QUEUED or of_user not in lines:
            return None
        waiting, first, newest, served = lines[of_user]
        own = waiting - 1 if newest == number else self._older(submission)
        before = own
        for user_id, (waiting, oldest, _newest, last_served) in lines.items():
            if user_id != of_user:
                # Who comes before the user's oldest keeps doing so, turn for turn.
                goes_first = (last_served, oldest) < (served, first)
                before += min(waiting, own + goes_first)
        for priority, above in self._by_priority.items():
            if priority > submission.priority:
                before += sum(line.waiting for line in above.values())
        return before + 1

    def _older(self, submission: Submission) -> int:
        """How many of the same user's with the same priority go first."""
        older = select(func.count()).where(
            Submission.state == State.QUEUED,
            Submission.priority == submission.priority,
            Submission.user_id == submission.user_id,
            Submission.number < submission.number,
        )
        return self._session.scalar(older) or 0


WaitsFor = Literal["cpu", "cuda", "any"]
"""A kind of device."""


class AgentsHere:
    """The agents that get work, at one moment: whether one of them can take a submission."""

    def __init__(self, session: Session) -> None:
        wanted = (
            select(Agent.kind, Agent.problems, func.max(Agent.last_seen))
            .where(Agent.refused.is_(None), Agent.left_at.is_(None))
            .group_by(Agent.kind, Agent.problems)
        )
        self._rows = session.connection().execute(wanted).all()

    def lacking(self, submission: Submission, version: str | None, heard_since: float) -> WaitsFor | None:
        """The kind of device that a submission waits for because no agent with one, that was heard of since then and
        has that version of its problem, is here; None when there is one, or it does not wait."""
        if submission.state != State.QUEUED:
            return None
        there = [(kind, problems) for kind, problems, seen in self._rows if seen >= heard_since]
        wanted = submission.device_kind
        # As agents get them: the CPU's take those that name no device only where no GPU is.
        kind = wanted or ("cuda" if any(kind == "cuda" for kind, _ in there) else "cpu")
        for each, problems in there:
            if each == kind and version is not None and json.loads(problems).get(submission.problem_id) == version:
                return None
        return wanted or ("cuda" if kind == "cuda" else "any")  # type: ignore[return-value]  # checked as it came in


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
