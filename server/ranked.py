"""Leaderboards as they are shown: kept in memory, and kept up with what the store says.

    standings --what has changed--> kept rows --> ranks

A board is read whole once. From then on each look compares how often the board has changed, and after a change reads
which submission stands for whom, which is little, and the rows of those that are new. So what is shown is never older
than the request, and costs little while many answers come in.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from server.results import BoardKey, of_board
from server.store import Board, Result, Standing, Submission, User

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_AT_ONCE = 500
_MOST = 64
"""Boards that are kept."""


class Best(NamedTuple):
    """Somebody's best on a board."""

    number: int
    """The submission's, in the store."""
    submission_id: str
    user: str
    user_id: int
    median_us: float
    low_us: float
    high_us: float
    speedup: float
    speedup_low: float
    speedup_high: float
    fraction_of_floor: float | None
    at: float
    warnings: str
    """As `Result.warnings`."""


class Entry(NamedTuple):
    """One line of a leaderboard."""

    rank: int
    tied: bool
    """Whether another entry has this rank as well."""
    best: Best


def ranked(bests: Iterable[Best]) -> list[Entry]:
    """Fastest first. The rank is one more than the number of those whose whole interval lies below."""
    rows = sorted(bests, key=lambda best: (best.median_us, best.number))
    highs = sorted([best.high_us for best in rows])
    ranks = [1 + bisect_left(highs, best.low_us) for best in rows]
    shared = Counter(ranks)
    return [Entry(rank, shared[rank] > 1, best) for rank, best in zip(ranks, rows, strict=True)]


class KeptBoard:
    """The best of each user of one board, as of some change of it. One thread at a time."""

    def __init__(self, key: BoardKey) -> None:
        self._key = key
        self._changes: int | None = None
        self._of_user: dict[int, Best] = {}
        self._entries: list[Entry] = []

    def entries(self, session: Session, changes: int) -> list[Entry]:
        """Those of now; `changes` is how many there had been before the session looks for them."""
        # A count that is lower belongs to a look that began before another one: what is kept is newer.
        if self._changes is None or self._changes < changes:
            self._catch_up(session)
            self._changes = changes
        return self._entries

    def _catch_up(self, session: Session) -> None:
        # The connection, not the session: there may be thousands of rows, and none of them is an object.
        connection = session.connection()
        standing = connection.execute(
            select(Standing.user_id, Standing.submission_number).where(*of_board(Standing, self._key))
        ).all()
        kept: dict[int, Best] = {}
        new: list[int] = []
        for user_id, number in standing:
            best = self._of_user.get(user_id)
            if best is not None and best.number == number:
                kept[user_id] = best
            else:
                new.append(number)
        for begin in range(0, len(new), _AT_ONCE):
            for row in connection.execute(_BESTS.where(Result.submission_number.in_(new[begin : begin + _AT_ONCE]))):
                best = Best._make(row)
                kept[best.user_id] = best
        self._of_user, self._entries = kept, ranked(kept.values())


_BESTS = (
    select(
        Result.submission_number,
        Submission.id,
        User.name,
        User.id,
        Result.median_us,
        Result.low_us,
        Result.high_us,
        Result.speedup,
        Result.speedup_low,
        Result.speedup_high,
        Result.fraction_of_floor,
        Result.at,
        Result.warnings,
    )
    .join(User, User.id == Result.user_id)
    .join(Submission, Submission.number == Result.submission_number)
)


class ProblemBoards(NamedTuple):
    """The boards of a version of a problem."""

    changes: dict[BoardKey, int]
    """How often each has changed."""
    by_device: dict[str, list[str]]
    """The devices that have entries, each with its workloads; the fullest ones first."""


class Leaderboards:
    """All of them, for requests in any thread."""

    def __init__(self) -> None:
        self._boards: _Kept[BoardKey, tuple[threading.Lock, KeptBoard]] = _Kept()
        self._counts: _Kept[BoardKey, tuple[int, int]] = _Kept(50 * _MOST)

    def boards(self, session: Session, problem_id: str, version: str) -> ProblemBoards:
        """Those of a version of a problem that have entries."""
        rows = session.connection().execute(
            select(Board.workload, Board.device_name, Board.changes).where(
                Board.problem_id == problem_id, Board.problem_version == version
            )
        )
        changes = {BoardKey(problem_id, version, workload, device): count for workload, device, count in rows}
        counts = {key: self._count(session, key, changed) for key, changed in changes.items()}
        found: dict[str, list[str]] = {}
        for key in sorted(counts, key=lambda key: (-counts[key], key.device_name, key.workload)):
            if counts[key]:
                found.setdefault(key.device_name, []).append(key.workload)
        return ProblemBoards(changes, found)

    def _count(self, session: Session, key: BoardKey, changes: int) -> int:
        """Entries of a board."""
        known = self._counts.get(key, lambda: (-1, 0))
        if known[0] != changes:
            count = session.connection().scalar(
                select(func.count()).select_from(Standing).where(*of_board(Standing, key))
            )
            known = self._counts.put(key, (changes, count or 0))
        return known[1]

    def entries(self, session: Session, key: BoardKey, changes: int) -> list[Entry]:
        """The best of each user, fastest first."""
        lock, board = self._boards.get(key, lambda: (threading.Lock(), KeptBoard(key)))
        session.connection()  # before the lock: those who wait for it may have all the others
        with lock:  # whoever comes meanwhile finds what this one has read
            return board.entries(session, changes)


class _Kept(Generic[K, V]):
    """The things that were asked for last. From any thread."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._lock = most, threading.Lock()
        self._made: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What is kept, or made now."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._trimmed(key)

    def put(self, key: K, value: V) -> V:
        """Keep it from now on."""
        with self._lock:
            self._made[key] = value
            return self._trimmed(key)

    def _trimmed(self, key: K) -> V:
        self._made.move_to_end(key)
        while len(self._made) > self._most:
            self._made.popitem(last=False)
        return self._made[key]
