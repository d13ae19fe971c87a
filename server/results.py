"""What is kept of an accepted time for the leaderboards; `ranked.py` shows them.

A board is one workload, or those that rank together, of one version of one problem on one device, by its name: times of
different devices are not held against each other. Each user has their best. The rank of an entry is one more than the
number of entries that are surely faster: whose whole interval lies below its own. So entries whose intervals overlap
can share a rank, and a difference that was not measured decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, CursorResult, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from harness.client.marks import MARKS
from harness.report import Report, Score, Verdict
from server.store import Board, Result, Standing, Submission, User

_NO_ANSWER = (Verdict.JUDGE_ERROR, Verdict.UNSTABLE)
"""Say nothing about a submission, so that an earlier answer stands."""


class BoardKey(NamedTuple):
    """Which board."""

    problem_id: str
    problem_version: str
    workload: str
    device_name: str


def of_board(row: type[Board] | type[Standing] | type[Result], key: BoardKey) -> list[ColumnElement[bool]]:
    """The rows of that table that belong to a board."""
    return [getattr(row, name) == value for name, value in key._asdict().items()]


def keep_result(session: Session, submission: Submission, report: Report, now: float) -> None:
    """Put an accepted time on its board. A regrade takes the entry of what it grades again off, however it ends."""
    # Two answers for one user at once would each not see the other's, so they take turns.
    session.execute(select(User.id).where(User.id == submission.user_id).with_for_update(key_share=True))
    touched: set[BoardKey] = set()
    if submission.regrade_of is not None and report.verdict not in _NO_ANSWER:
        touched |= _take_off(session, submission)
    if (result := _result(submission, report, now)) is not None:
        session.add(result)
        session.flush()
        touched.add(_board_of(result))
    for key in touched:
        _stand(session, key, submission.user_id)
    _count_changes(session, touched)


def _result(submission: Submission, report: Report, now: float) -> Result | None:
    """What a board shows of a report; None when it is not to be on one."""
    score, problem, device = report.score, report.problem, report.device
    if report.verdict is not Verdict.ACCEPTED or score is None or problem is None or device is None:
        return None
    if not has_ends(score):
        return None
    low, high = score.time_ci95_us
    told = {warning.code for warning in report.warnings}
    return Result(
        submission_number=submission.number,
        user_id=submission.user_id,
        problem_id=problem.id,
        problem_version=problem.version,
        workload=problem.workload,
        device_name=device.name[:200],
        median_us=score.time_us,
        low_us=low,
        high_us=high,
        speedup=score.speedup,
        speedup_low=score.speedup_ci95[0],
        speedup_high=score.speedup_ci95[1],
        fraction_of_floor=score.fraction_of_floor,
        at=now,
        warnings=" ".join(code for code in MARKS if code in told),
    )


def has_ends(score: Score) -> bool:
    """Whether a time and its speedup lie in intervals with two ends, without which no board shows them."""
    return all(map(math.isfinite, (score.time_us, *score.time_ci95_us, score.speedup, *score.speedup_ci95)))


def _board_of(result: Result) -> BoardKey:
    return BoardKey(result.problem_id, result.problem_version, result.workload, result.device_name)


def _take_off(session: Session, submission: Submission) -> set[BoardKey]:
    """The results of all earlier gradings of the same submission; the boards that they were on."""
    family = select(Submission.number).where(
        (Submission.id == submission.regrade_of) | (Submission.regrade_of == submission.regrade_of)
    )
    old = session.scalars(select(Result).where(Result.submission_number.in_(family))).all()
    for one in old:
        session.execute(delete(Standing).where(Standing.submission_number == one.submission_number))
        session.delete(one)
    session.flush()
    return {_board_of(one) for one in old}


def _stand(session: Session, key: BoardKey, user_id: int) -> None:
    """Find a user's best on a board anew."""
    best = session.scalar(
        select(Result.submission_number)
        .where(*of_board(Result, key), Result.user_id == user_id)
        .order_by(Result.median_us, Result.submission_number)
        .limit(1)
    )
    session.execute(delete(Standing).where(*of_board(Standing, key), Standing.user_id == user_id))
    if best is not None:
        session.execute(insert(Standing).values(**key._asdict(), user_id=user_id, submission_number=best))


def _count_changes(session: Session, touched: Iterable[BoardKey]) -> None:
    """Whatever was made of these boards earlier is old now. Last of all, and in order: others wait for these rows."""
    for key in sorted(touched):
        change = update(Board).where(*of_board(Board, key)).values(changes=Board.changes + 1)
        if cast(CursorResult[Any], session.execute(change)).rowcount == 0:
            try:
                with session.begin_nested():
                    session.execute(insert(Board).values(**key._asdict(), changes=1))
            except IntegrityError:
                session.execute(change)  # somebody else's first entry came between
