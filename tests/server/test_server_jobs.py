"""Attempts and leases, whatever order things happen in; and at the same time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_fakes import SOURCE, report_of
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harness.report import Report
from harness.version import VERSION
from server import jobs, keys
from server.arrivals import Arrival, Order, QueueFull, add_all, hand_in
from server.jobs import MAX_ATTEMPTS, Claim, UnknownAttempt
from server.queue import Queue
from server.store import Agent, Attempt, Database, Event, Submission, User

LEASE = 10.0
VERSIONS = {"p": "v"}
ORDER = Order(problem_id="p", problem_version="v", source=SOURCE.encode(), mode="check", label="")


def add_agent(session: Session) -> Agent:
    key = keys.create(session, "machine", "agent", 0.0)
    agent = Agent(
        key_id=key.split("_")[1],
        name="m",
        device="cpu",
        kind="cpu",
        device_name="CPU",
        version=VERSION,
        problems=json.dumps(VERSIONS),
        sandbox="bubblewrap",
        first_seen=0.0,
        last_seen=0.0,
    )
    session.add(agent)
    session.flush()
    return agent


def claim(session: Session, agent: Agent, now: float) -> Claim | None:
    return jobs.claim(session, agent, VERSIONS, now, lease_s=LEASE, away_s=90.0)


def report(verdict: str) -> Report:
    code = "grade.correct" if verdict == "accepted" else "run.exception"
    work = {"mode": "check", "workload": None, "problem": "p", "problem_version": "v", "source": SOURCE}
    return Report.model_validate(report_of(work, verdict=verdict, code=code))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "renew", "finish", "give_up", "expire", "wait", "cancel", "stranger"]),
        st.integers(0, 7),
    ),
    max_size=25,
)


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_in_any_order_every_submission_ends_once(database: Database, steps: list[tuple[str, int]]):
    # One transaction for a whole example, undone at its end: what is tested is which step does what, not durability.
    with Session(database.engine) as session:
        _play(session, steps)


def _play(session: Session, steps: list[tuple[str, int]]) -> None:
    agent = add_agent(session)
    user = User(name="u", created_at=0.0)
    session.add(user)
    session.flush()
    made = [one.submission for one in add_all(session, [Arrival(user.id, ORDER, 0.0, None)] * 2, Queue())]
    now, claims, answers = 0.0, [], {}
    overdue: dict[int, float] = {}
    for step, which in steps:
        now += 1.0
        chosen = claims[which % len(claims)] if claims else None
        if step == "claim":
            if (got := claim(session, agent, now)) is not None:
                claims.append(got)
                overdue[got.attempt_id] = now + LEASE
        elif step == "wait":
            now += 4.0
        elif step == "expire":
            jobs.expire(session, now)
        elif step == "cancel":
            one = made[which % 2]
            if jobs.cancel(session, one.number, now):
                answers.setdefault(one.id, "cancelled")
            else:
                assert one.id in answers
        elif chosen is None:
            continue
        elif step == "renew":
            standing = jobs.renew(session, chosen.attempt_id, chosen.token, now, lease_s=LEASE)
            if standing == "active":
                assert now <= overdue[chosen.attempt_id]
                overdue[chosen.attempt_id] = now + LEASE
        elif step == "give_up":
            jobs.give_up(session, chosen.attempt_id, chosen.token, "no more", now)
        elif step == "stranger":
            with pytest.raises(UnknownAttempt):
                jobs.finish(session, chosen.attempt_id, "another token", report("accepted"), now)
        elif step == "finish":
            verdict = "accepted" if which % 2 else "runtime_error"
            first = chosen.submission.id not in answers
            if jobs.finish(session, chosen.attempt_id, chosen.token, report(verdict), now) and first:
                assert now <= overdue[chosen.attempt_id], "an answer after the lease counted"
                answers[chosen.submission.id] = verdict
        _check(session, made, answers)
    # Whatever happened, agents that do their work bring everything to its end.
    for _ in range(2 * MAX_ATTEMPTS):
        now += LEASE + 1
        jobs.expire(session, now)
        if (got := claim(session, agent, now)) is not None:
            assert jobs.finish(session, got.attempt_id, got.token, report("accepted"), now)
            answers.setdefault(got.submission.id, "accepted")
    _check(session, made, answers)
    for one in made:
        assert one.state in ("done", "cancelled")


def _check(session: Session, made: list[Submission], answers: dict[str, str]) -> None:
    session.flush()
    for one in made:
        session.refresh(one)
        states = [
            attempt.state for attempt in session.scalars(select(Attempt).where(Attempt.submission_number == one.number))
        ]
        assert len(states) == one.attempts <= MAX_ATTEMPTS
        at_work = one.state in ("building", "running")
        assert states.count("active") == (1 if at_work else 0)
        ends = session.scalar(
            select(func.count()).where(Event.submission_number == one.number, Event.kind.in_(("done", "cancelled")))
        )
        assert ends == (1 if one.state in ("done", "cancelled") else 0)
        if one.verdict == "judge_error":
            assert states == ["lost"] * MAX_ATTEMPTS
            answers.setdefault(one.id, "judge_error")
        if one.id in answers:
            assert (one.verdict or one.state) == answers[one.id], "an answer was changed"


def at_once(count: int, work: Any) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def test_at_the_same_time_each_is_claimed_once(database: Database):
    with database.write() as session:
        agent = add_agent(session)
        user = User(name="u", created_at=0.0)
        session.add(user)
    for _ in range(12):
        hand_in(database, Arrival(user.id, ORDER, 0.0, None))

    def take(_: int) -> list[tuple[str, bool]]:
        taken = []
        for _ in range(20):
            with database.write() as session:
                got = claim(session, agent, 1.0)
            if got is None:
                break
            with database.write() as session:
                counted = jobs.finish(session, got.attempt_id, got.token, report("accepted"), 2.0)
            taken.append((got.submission.id, counted))
        return taken

    taken = [one for list_ in at_once(6, take) for one in list_]
    assert len(taken) == len({name for name, _ in taken}) == 12
    assert all(counted for _, counted in taken)


def test_at_the_same_time_one_report_counts(database: Database):
    with database.write() as session:
        agent = add_agent(session)
        user = User(name="u", created_at=0.0)
        session.add(user)
    hand_in(database, Arrival(user.id, ORDER, 0.0, None))
    with database.write() as session:
        got = claim(session, agent, 1.0)
    assert got is not None

    def finish(number: int) -> bool:
        # Every one of them says something else, and one is a cancellation.
        with database.write() as session:
            if number == 0:
                return jobs.cancel(session, got.submission.number, 2.0)
            verdict = "accepted" if number % 2 else "runtime_error"
            mine = report(verdict).model_copy(update={"log": str(number)})
            return jobs.finish(session, got.attempt_id, got.token, mine, 2.0)

    assert sum(at_once(6, finish)) == 1


def test_at_the_same_time_one_idempotency_key_makes_one_submission(database: Database):
    with database.write() as session:
        user = User(name="u", created_at=0.0)
        session.add(user)
    made = at_once(6, lambda _: hand_in(database, Arrival(user.id, ORDER, 0.0, 50, "same")).submission.id)
    assert len(set(made)) == 1
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Submission)) == 1


def test_at_the_same_time_the_limit_of_the_queue_holds(database: Database):
    with database.write() as session:
        user = User(name="u", created_at=0.0)
        session.add(user)

    def try_one(_: int) -> bool:
        try:
            hand_in(database, Arrival(user.id, ORDER, 0.0, 3))
        except QueueFull:
            return False
        return True

    assert sum(at_once(8, try_one)) == 3
