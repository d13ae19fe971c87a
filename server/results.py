"""Leaderboards: what is kept of an accepted time, and how times are ranked.

A board is one workload, or those that rank together, of one version of one problem on one device, by its name: times of
different devices are not held against each other. Each user has their best. The rank of an entry is one more than the
number of entries that are surely faster: whose whole interval lies below its own. So entries whose intervals overlap
can share a rank, and a difference that was not measured decides nothing.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

from sqlalchemy import ColumnElement, CursorResult, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from harness.report import Report, Verdict
from server.store import Board, Result, Standing, Submission, User

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_NO_ANSWER = (Verdict.JUDGE_ERROR, Verdict.UNSTABLE)
"""Say nothing about a submission, so that an earlier answer stands."""


@dataclass(frozen=True)
class Entry:
    """One line of a leaderboard."""

    rank: int
    tied: bool
    """Whether another entry has this rank as well."""
    user: str
    user_id: int
    submission_id: str
    median_us: float
    low_us: float
    high_us: float
    speedup: float
    speedup_low: float
    speedup_high: float
    fraction_of_floor: float | None
    at: float


class BoardKey(NamedTuple):
    """Which board."""

    problem_id: str
    problem_version: str
    workload: str
    device_name: str


def _of(row: type[Board] | type[Standing] | type[Result], key: BoardKey) -> list[ColumnElement[bool]]:
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
    low, high = score.time_ci95_us
    if not all(map(math.isfinite, (score.time_us, low, high, score.speedup, *score.speedup_ci95))):
        return None
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
    )


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
        .where(*_of(Result, key), Result.user_id == user_id)
        .order_by(Result.median_us, Result.submission_number)
        .limit(1)
    )
    session.execute(delete(Standing).where(*_of(Standing, key), Standing.user_id == user_id))
    if best is not None:
        session.execute(insert(Standing).values(**key._asdict(), user_id=user_id, submission_number=best))


def _count_changes(session: Session, touched: Iterable[BoardKey]) -> None:
    """Whatever was made of these boards earlier is old now. Last of all, and in order: others wait for these rows."""
    for key in sorted(touched):
        change = update(Board).where(*_of(Board, key)).values(changes=Board.changes + 1)
        if cast(CursorResult[Any], session.execute(change)).rowcount == 0:
            try:
                with session.begin_nested():
                    session.execute(insert(Board).values(**key._asdict(), changes=1))
            except IntegrityError:
                session.execute(change)  # somebody else's first entry came between


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


def leaderboard(session: Session, key: BoardKey) -> list[Entry]:
    """The best of each user, fastest first."""
    rows = session.execute(
        select(
            User.name,
            User.id,
            Submission.id,
            Result.median_us,
            Result.low_us,
            Result.high_us,
            Result.speedup,
            Result.speedup_low,
            Result.speedup_high,
            Result.fraction_of_floor,
            Result.at,
        )
        .join(Standing, Standing.submission_number == Result.submission_number)
        .join(User, User.id == Result.user_id)
        .join(Submission, Submission.number == Result.submission_number)
        .where(*_of(Standing, key))
        .order_by(Result.median_us, Result.submission_number)
    ).all()
    highs = sorted(row.high_us for row in rows)
    ranks = [1 + bisect_left(highs, row.low_us) for row in rows]
    shared = Counter(ranks)
    return [Entry(rank, shared[rank] > 1, *row) for rank, row in zip(ranks, rows, strict=True)]


class Leaderboards:
    """Those two, read again only when a board has changed."""

    def __init__(self) -> None:
        self._lists: _Kept[tuple[str, str], dict[str, list[str]]] = _Kept()
        self._entries: _Kept[BoardKey, list[Entry]] = _Kept()

    def boards(self, session: Session, problem_id: str, version: str) -> dict[str, list[str]]:
        """As the function of that name."""
        changes = session.execute(
            select(Board.workload, Board.device_name, Board.changes)
            .where(Board.problem_id == problem_id, Board.problem_version == version)
            .order_by(Board.workload, Board.device_name)
        )
        stamp = tuple(tuple(row) for row in changes)
        return self._lists.get((problem_id, version), stamp, lambda: boards(session, problem_id, version))

    def entries(self, session: Session, key: BoardKey) -> list[Entry]:
        """As `leaderboard`."""
        # The count first: entries that are newer than it are read once more, older ones would stay.
        stamp = session.scalar(select(Board.changes).where(*_of(Board, key)))
        return self._entries.get(key, stamp, lambda: leaderboard(session, key))


class _Kept(Generic[K, V]):
    """What was made of each of some things, good as long as its stamp is. From any thread."""

    def __init__(self, most: int = 64) -> None:
        self._most, self._lock = most, threading.Lock()
        self._made: OrderedDict[K, tuple[object, V]] = OrderedDict()

    def get(self, key: K, stamp: object, make: Callable[[], V]) -> V:
        """What was made with this stamp, or is now."""
        with self._lock:
            found = self._made.get(key)
            if found is not None and found[0] == stamp:
                self._made.move_to_end(key)
                return found[1]
        value = make()
        with self._lock:
            self._made[key] = (stamp, value)
            self._made.move_to_end(key)
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return value
