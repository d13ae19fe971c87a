"""Leaderboards: what is kept of an accepted time, and how times are ranked.

A board is one workload, or those that rank together, of one version of one problem on one device, by its name: times of
different devices are not held against each other. Each user has their best. The rank of an entry is one more than the
number of entries that are surely faster: whose whole interval lies below its own. So entries whose intervals overlap
can share a rank, and a difference that was not measured decides nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from harness.report import Report, Verdict
from server.store import Result, Standing, Submission, User

_NO_ANSWER = (Verdict.JUDGE_ERROR, Verdict.UNSTABLE)
"""Say nothing about a submission, so that an earlier answer stands."""


@dataclass(frozen=True)
class Entry:
    """One line of a leaderboard."""

    rank: int
    tied: bool
    """Whether another entry has this rank as well."""
    user: str
    submission_id: str
    result: Result


def keep_result(session: Session, submission: Submission, report: Report, now: float) -> None:
    """Put an accepted time on its board. A regrade takes the entry of what it grades again off, however it ends."""
    # Two answers for one user at once would each not see the other's, so they take turns.
    session.execute(select(User.id).where(User.id == submission.user_id).with_for_update(key_share=True))
    if submission.regrade_of is not None and report.verdict not in _NO_ANSWER:
        _take_off(session, submission)
    score, problem, device = report.score, report.problem, report.device
    if report.verdict is not Verdict.ACCEPTED or score is None or problem is None or device is None:
        return
    low, high = score.time_ci95_us
    if not all(map(math.isfinite, (score.time_us, low, high, score.speedup, *score.speedup_ci95))):
        return
    result = Result(
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
    )
    session.add(result)
    session.flush()
    _stand(session, result)


def _take_off(session: Session, submission: Submission) -> None:
    """The results of all earlier gradings of the same submission."""
    family = select(Submission.number).where(
        (Submission.id == submission.regrade_of) | (Submission.regrade_of == submission.regrade_of)
    )
    for old in session.scalars(select(Result).where(Result.submission_number.in_(family))).all():
        session.execute(delete(Standing).where(Standing.submission_number == old.submission_number))
        session.delete(old)
        session.flush()
        _stand(session, old)


def _stand(session: Session, about: Result) -> None:
    """Find the best anew, of the user and on the board that this result is or was of."""
    keys = ("problem_id", "problem_version", "workload", "device_name", "user_id")
    where = {key: getattr(about, key) for key in keys}
    best = session.scalar(
        select(Result.submission_number)
        .where(*(getattr(Result, key) == value for key, value in where.items()))
        .order_by(Result.median_us, Result.submission_number)
        .limit(1)
    )
    session.execute(delete(Standing).where(*(getattr(Standing, key) == value for key, value in where.items())))
    if best is not None:
        session.execute(insert(Standing).values(**where, submission_number=best))


def boards(session: Session, problem_id: str, version: str) -> dict[str, list[str]]:
    """The devices that a version of a problem has entries of, each with its workloads; the fullest ones first."""
    rows = session.execute(
        select(Standing.device_name, Standing.workload)
        .where(Standing.problem_id == problem_id, Standing.problem_version == version)
        .group_by(Standing.device_name, Standing.workload)
        .order_by(func.count().desc(), Standing.device_name, Standing.workload)
    )
    found: dict[str, list[str]] = {}
    for device, workload in rows:
        found.setdefault(device, []).append(workload)
    return found


def leaderboard(
    session: Session, problem_id: str, version: str, workload: str, device_name: str, limit: int
) -> list[Entry]:
    """The best of each user, fastest first."""
    rows = session.execute(
        select(Result, User.name, Submission.id)
        .join(Standing, Standing.submission_number == Result.submission_number)
        .join(User, User.id == Result.user_id)
        .join(Submission, Submission.number == Result.submission_number)
        .where(
            Standing.problem_id == problem_id,
            Standing.problem_version == version,
            Standing.workload == workload,
            Standing.device_name == device_name,
        )
        .order_by(Result.median_us, Result.submission_number)
    ).all()
    highs = sorted(result.high_us for result, _, _ in rows)
    ranks = [1 + bisect_left(highs, result.low_us) for result, _, _ in rows]
    shared = Counter(ranks)
    return [
        Entry(rank=rank, tied=shared[rank] > 1, user=user, submission_id=submission_id, result=result)
        for rank, (result, user, submission_id) in zip(ranks[:limit], rows[:limit], strict=True)
    ]
