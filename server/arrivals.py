"""Submissions into the queue. Those that come at the same time share one transaction.

    request --+
    request --+--> Arrivals --> hand_in_all: one transaction, one wait for the disk --> each its answer
    request --+

What a commit costs is the wait for the disk, and one wait serves all that came during the one before.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from server.queue import AgentsHere, Queue, Waiting
from server.store import Database, Event, Submission, User
from server.store.models import OPEN, State

_TOGETHER = 64
"""In one transaction at most."""


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
    file_name: str | None = None
    device_kind: str | None = None
    workload: str | None = None
    priority: int = 0
    regrade_of: str | None = None

    def digest(self) -> str:
        """Equal for equal requests, whatever version the problem has meanwhile, and whatever the file is called."""
        told = {**asdict(self), "source": hashlib.sha256(self.source).hexdigest(), "problem_version": None}
        del told["file_name"]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Arrival:
    """A request to put something in the queue."""

    user_id: int
    order: Order
    at: float
    max_queued: int | None
    """How many of the user's may be unfinished; None: any number."""
    key: str | None = None
    """The same one again gives the same submission."""


@dataclass(frozen=True)
class Accepted:
    """It is in the queue, or was before."""

    submission: Submission
    place: int | None
    """As `Waiting.place` says."""
    agents: AgentsHere
    """Who was there to take it."""


Outcome = Accepted | Exception
"""QueueFull and KeyReused, and whatever else came in the way."""


def hand_in(database: Database, arrival: Arrival) -> Accepted:
    """Put it in the queue; durable when this returns. Raises QueueFull and KeyReused."""
    (outcome,) = hand_in_all(database, [arrival])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def hand_in_all(database: Database, arrivals: Sequence[Arrival], queue: Queue | None = None) -> list[Outcome]:
    """The same for several in one transaction; what becomes of each, in their order."""
    queue = queue or Queue()
    try:
        with database.write() as session:
            return add_all(session, arrivals, queue)
    except DBAPIError as error:
        if len(arrivals) > 1:  # one of them, and the others have nothing to do with it
            return [_alone(database, one, queue) for one in arrivals]
        if not isinstance(error, IntegrityError):
            raise
        # Its Idempotency-Key came to another server at the same time, which was first: now it is found.
        with database.write() as session:
            return add_all(session, arrivals, queue)


def _alone(database: Database, arrival: Arrival, queue: Queue) -> Outcome:
    try:
        (outcome,) = hand_in_all(database, [arrival], queue)
    except Exception as error:  # noqa: BLE001 - the answer to this one and to no other
        return error
    return outcome


def add_all(session: Session, arrivals: Sequence[Arrival], queue: Queue) -> list[Outcome]:
    """The same within a transaction."""
    unfinished = _unfinished(session, {one.user_id for one in arrivals if one.max_queued is not None})
    known = _known(session, arrivals)
    fresh: list[Submission] = []
    found: list[Submission | Exception] = []
    for one in arrivals:
        earlier = None if one.key is None else known.get((one.user_id, one.key))
        if earlier is not None:
            found.append(earlier if earlier.request_digest == one.order.digest() else KeyReused())
        elif one.max_queued is not None and unfinished[one.user_id] >= one.max_queued:
            found.append(QueueFull())
        else:
            made = _submission(one)
            unfinished[one.user_id] += 1
            if one.key is not None:
                known[one.user_id, one.key] = made
            fresh.append(made)
            found.append(made)
    session.add_all(fresh)
    session.flush()
    if fresh:
        events = [
            {"submission_number": made.number, "number": 1, "at": made.created_at, "kind": "queued", "data": "{}"}
            for made in fresh
        ]
        session.execute(insert(Event), events)
    waiting, agents = Waiting(session, queue, {one.user_id for one in arrivals}), AgentsHere(session)
    return [one if isinstance(one, Exception) else Accepted(one, waiting.place(one), agents) for one in found]


def _unfinished(session: Session, users: set[int]) -> Counter[int]:
    """How many submissions of each wait or are at work. Nobody hands in for these users until the transaction ends, or
    two requests at once could both take the last place."""
    if not users:
        return Counter()
    # In the order of their numbers, or two transactions could wait for each other.
    session.execute(select(User.id).where(User.id.in_(users)).order_by(User.id).with_for_update(key_share=True))
    counts = (
        select(Submission.user_id, func.count())
        .where(Submission.user_id.in_(users), Submission.state.in_(OPEN))
        .group_by(Submission.user_id)
    )
    return Counter(dict(session.execute(counts).all()))


def _known(session: Session, arrivals: Sequence[Arrival]) -> dict[tuple[int, str], Submission]:
    """What came before with these keys."""
    users = {one.user_id for one in arrivals if one.key is not None}
    keys = {one.key for one in arrivals if one.key is not None}
    if not keys:
        return {}
    found = session.scalars(
        select(Submission).where(Submission.user_id.in_(users), Submission.idempotency_key.in_(keys))
    )
    return {(one.user_id, one.idempotency_key): one for one in found if one.idempotency_key is not None}


def _submission(arrival: Arrival) -> Submission:
    order = arrival.order
    return Submission(
        id=secrets.token_hex(10),
        user_id=arrival.user_id,
        problem_id=order.problem_id,
        problem_version=order.problem_version,
        workload=order.workload,
        device_kind=order.device_kind,
        mode=order.mode,
        label=order.label,
        file_name=order.file_name,
        source=order.source,
        source_sha256=hashlib.sha256(order.source).hexdigest(),
        priority=order.priority,
        state=State.QUEUED,
        created_at=arrival.at,
        attempts=0,
        events=1,
        idempotency_key=arrival.key,
        request_digest=None if arrival.key is None else order.digest(),
        regrade_of=order.regrade_of,
    )


class Arrivals:
    """Takes what comes, on the event loop, and hands in together what came while the last transaction ran."""

    def __init__(self, database: Database, queue: Queue) -> None:
        self._database, self._queue = database, queue
        self._waiting: list[tuple[Arrival, asyncio.Future[Outcome]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def hand_in(self, arrival: Arrival) -> Accepted:
        """As the function of that name."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((arrival, answer))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        outcome = await answer
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _write(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
                await self._write_together(together)
        finally:
            self._writing = None

    async def _write_together(self, together: list[tuple[Arrival, asyncio.Future[Outcome]]]) -> None:
        try:
            arrivals = [arrival for arrival, _ in together]
            outcomes = await run_in_threadpool(hand_in_all, self._database, arrivals, self._queue)
        except Exception as error:  # noqa: BLE001 - each of them has to be told, and answers it as any other failure
            for _, answer in together:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), outcome in zip(together, outcomes, strict=True):
            if not answer.done():
                answer.set_result(outcome)
