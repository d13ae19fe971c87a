"""Submissions that come together share a transaction and nothing else; two servers on one store see what is new."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import sqlalchemy as sa
from server_fakes import SOURCE, FakeAgent, Person
from sqlalchemy.exc import IntegrityError

from server.app import _Watch
from server.arrivals import Accepted, Arrival, Arrivals, KeyReused, Order, QueueFull, hand_in_all
from server.queue import Queue, Waiting
from server.results import BoardKey
from server.services import Services
from server.store import Database, Submission, User

ORDER = Order(problem_id="p", problem_version="v", source=SOURCE.encode(), mode="check", label="")


@pytest.fixture
def users(database: Database) -> list[int]:
    with database.write() as session:
        made = [User(name=name, created_at=0.0) for name in ("ada", "bob")]
        session.add_all(made)
        session.flush()
        return [one.id for one in made]


def stored(database: Database) -> int:
    with database.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(Submission)) or 0


def test_what_comes_together_is_kept_together_and_each_has_its_own_answer(database: Database, users: list[int]):
    ada, bob = users
    arrivals = [
        Arrival(ada, ORDER, 1.0, 2, "a"),
        Arrival(bob, ORDER, 1.0, None),
        Arrival(ada, ORDER, 1.0, 2, "a"),
        Arrival(ada, replace(ORDER, label="other"), 1.0, 2, "a"),
        Arrival(ada, ORDER, 1.0, 2, "b"),
        Arrival(ada, ORDER, 1.0, 2, "c"),
        Arrival(bob, ORDER, 1.0, None, "a"),
    ]
    commits = 0

    def count(_: object) -> None:
        nonlocal commits
        commits += 1

    sa.event.listen(database.engine, "commit", count)

    async def all_at_once() -> list[object]:
        together = Arrivals(database, Queue())
        return await asyncio.gather(*(together.hand_in(one) for one in arrivals), return_exceptions=True)

    outcomes = asyncio.run(all_at_once())
    sa.event.remove(database.engine, "commit", count)
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [Accepted, Accepted, Accepted, KeyReused, Accepted, QueueFull, Accepted]
    ids = [outcome.submission.id for outcome in outcomes if isinstance(outcome, Accepted)]
    assert ids[0] == ids[2]
    assert len(set(ids)) == 4 == stored(database)
    assert commits == 1
    # ada and bob take turns; the one whose oldest came first goes first.
    places = [outcome.place for outcome in outcomes if isinstance(outcome, Accepted)]
    assert places == [1, 2, 1, 3, 4]


def test_one_that_can_not_be_kept_harms_no_other(database: Database, users: list[int]):
    broken = Arrival(users[0], replace(ORDER, label=None), 1.0, None)  # type: ignore[arg-type]
    fine = Arrival(users[1], ORDER, 1.0, None, "k")
    outcomes = hand_in_all(database, [fine, broken, fine])
    assert [type(outcome) for outcome in outcomes] == [Accepted, IntegrityError, Accepted]
    assert stored(database) == 1


def test_two_servers_on_one_store_see_what_the_other_did(serving: Services, ada: Person, worker: Person):
    other = Services(serving.database, serving.catalogue, serving.settings, clock=serving.clock)
    agent = FakeAgent(worker, serving.catalogue.versions)
    key = BoardKey("scaled", serving.catalogue.versions["scaled"], "default", "AMD EPYC")

    def times() -> list[float]:
        with other.database.read() as session:
            there = other.leaderboards.boards(session, key.problem_id, key.problem_version)
            assert there.by_device == ({key.device_name: [key.workload]} if there.changes else {})
            entries = other.leaderboards.entries(session, key, there.changes.get(key, 0))
            return [entry.best.median_us for entry in entries]

    assert times() == []
    one, watch = ada.submit(), _Watch()
    with other.hub.listening(one):
        assert watch(other) == [one], "nobody knows what it missed before"
        assert watch(other) == []
        agent.report(agent.work(), median_us=50.0)
        assert watch(other) == [one]
    assert times() == times() == [50.0]
    ada.submit()
    agent.report(agent.work(), median_us=40.0)
    assert times() == [40.0]


def test_a_long_queue_is_looked_at_now_and_then_and_ones_own_line_always(database: Database, users: list[int]):
    seconds = iter([0.0, 0.1, 1.0, 2.0, 3.0, 3.1])  # a look takes a tenth of a second, and is kept for two
    queue = Queue(lambda: next(seconds), short=0)
    ada, bob = users[:2]

    def put(user: int) -> Submission:
        (outcome,) = hand_in_all(database, [Arrival(user, ORDER, 1.0, None)])
        assert isinstance(outcome, Accepted)
        return outcome.submission

    def places(*submissions: Submission) -> list[int | None]:
        with database.read() as session:
            waiting = Waiting(session, queue, {one.user_id for one in submissions})
            return [waiting.place(one) for one in submissions]

    first = put(ada)
    assert places(first) == [1]
    between, second, third = put(bob), put(ada), put(ada)
    assert places(second, third) == [2, 3], "bob is not seen yet"
    assert places(between, third) == [2, 4], "whoever asks is"
    assert places(first, second, third) == [1, 3, 4], "and now he is"
