"""Leaderboards: what is kept of an accepted time, and how times are ranked.

A board is one workload of one version of one problem on one device, by its name: times of different devices are not
held against each other. Each user has their best. The rank of an entry is one more than the number of entries that are
surely faster: whose whole interval lies below its own. So entries whose intervals overlap can share a rank, and a
difference that was not measured decides nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from harness.report import Report, Verdict
from server.store import Result, Submission, User

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
    if submission.regrade_of is not None and report.verdict not in _NO_ANSWER:
        old = select(Submission.number).where(
            (Submission.id == submission.regrade_of) | (Submission.regrade_of == submission.regrade_of)
        )
        session.execute(delete(Result).where(Result.submission_number.in_(old)))
    timing, problem, device = report.timing, report.problem, report.device
    if report.verdict is not Verdict.ACCEPTED or timing is None or problem is None or device is None:
        return
    low, high = timing.candidate.ci95_us
    if not all(map(math.isfinite, (timing.candidate.median_us, low, high, timing.speedup, *timing.speedup_ci95))):
        return
    session.add(
        Result(
            submission_number=submission.number,
            user_id=submission.user_id,
            problem_id=problem.id,
            problem_version=problem.version,
            workload=problem.workload,
            device_name=device.name[:200],
            median_us=timing.candidate.median_us,
            low_us=low,
            high_us=high,
            speedup=timing.speedup,
            speedup_low=timing.speedup_ci95[0],
            speedup_high=timing.speedup_ci95[1],
            fraction_of_floor=timing.fraction_of_floor,
            at=now,
        )
    )


def boards(session: Session, problem_id: str, version: str) -> dict[str, list[str]]:
    """The devices that a version of a problem has entries of, each with its workloads; the fullest ones first."""
    rows = session.execute(
        select(Result.device_name, Result.workload)
        .where(Result.problem_id == problem_id, Result.problem_version == version)
        .group_by(Result.device_name, Result.workload)
        .order_by(func.count().desc(), Result.device_name, Result.workload)
    )
    found: dict[str, list[str]] = {}
    for device, workload in rows:
        found.setdefault(device, []).append(workload)
    return found


def leaderboard(
    session: Session, problem_id: str, version: str, workload: str, device_name: str, limit: int
) -> list[Entry]:
    """The best of each user, fastest first."""
    on_board = (
        Result.problem_id == problem_id,
        Result.problem_version == version,
        Result.workload == workload,
        Result.device_name == device_name,
    )
    best = (
        select(
            Result.submission_number,
            func.row_number()
            .over(partition_by=Result.user_id, order_by=(Result.median_us, Result.submission_number))
            .label("place"),
        )
        .where(*on_board)
        .subquery()
    )
    rows = session.execute(
        select(Result, User.name, Submission.id)
        .join(best, best.c.submission_number == Result.submission_number)
        .join(User, User.id == Result.user_id)
        .join(Submission, Submission.number == Result.submission_number)
        .where(best.c.place == 1)
        .order_by(Result.median_us, Result.submission_number)
    ).all()
    highs = sorted(result.high_us for result, _, _ in rows)
    ranks = [1 + bisect_left(highs, result.low_us) for result, _, _ in rows]
    shared = Counter(ranks)
    return [
        Entry(rank=rank, tied=shared[rank] > 1, user=user, submission_id=submission_id, result=result)
        for rank, (result, user, submission_id) in zip(ranks[:limit], rows[:limit], strict=True)
    ]
