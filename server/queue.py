"""The queue as its users see it: who waits, a submission's place, lists."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from server.store import Submission, User
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
