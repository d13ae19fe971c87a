"""The queue as its users see it: who waits, a submission's place, lists."""

from __future__ import annotations

import json
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from server.store import Agent, Submission, User
from server.store.models import AT_WORK, State


def place(session: Session, submission: Submission) -> int | None:
    """As `Waiting.place`, of one."""
    return Waiting(session).place(submission) if submission.state == State.QUEUED else None


class Waiting:
    """Who waits, at one moment."""

    def __init__(self, session: Session) -> None:
        lines = (
            select(
                Submission.priority,
                Submission.user_id,
                func.count().label("waiting"),
                func.min(Submission.number).label("oldest"),
                func.max(Submission.number).label("newest"),
            )
            .where(Submission.state == State.QUEUED)
            .group_by(Submission.priority, Submission.user_id)
            .subquery()
        )
        self._session = session
        wanted = select(lines, User.last_served).join(User, User.id == lines.c.user_id)
        # The connection, not the session: there may be a thousand rows, and none of them is an object.
        rows = session.connection().execute(wanted)
        self._by_priority: dict[int, dict[int, tuple[int, int, int, float]]] = {}
        for priority, user_id, waiting, oldest, newest, served in rows:
            self._by_priority.setdefault(priority, {})[user_id] = (waiting, oldest, newest, served)

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
        for user_id, (waiting, oldest, _, last_served) in lines.items():
            if user_id != of_user:
                # Who comes before the user's oldest keeps doing so, turn for turn.
                goes_first = (last_served, oldest) < (served, first)
                before += min(waiting, own + goes_first)
        for priority, above in self._by_priority.items():
            if priority > submission.priority:
                before += sum(line[0] for line in above.values())
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
