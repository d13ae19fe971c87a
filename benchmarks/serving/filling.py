"""A store with many graded submissions in it."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
from typing import Any

from sqlalchemy import func, insert, select

from benchmarks.serving.reports import DEVICE_NAME, about, example
from server.store import Database, Event, Result, Submission, User
from server.store.models import State

_AT_ONCE = 2000


def fill(database: Database, problem: str, version: str, count: int, source: str, now: float) -> None:
    """Accepted and timed ones of all users in turn, all on one board: the worst case of a leaderboard.

    Rows are written as jobs.py would have left them, except that an attempt of an agent is missing.
    """
    draw = random.Random(7)
    with database.read() as session:
        users = list(session.scalars(select(User.id).where(User.name.like("user%")).order_by(User.id)))
        first = (session.scalar(select(func.max(Submission.number))) or 0) + 1
    report = example()
    workload = "default"
    for begin in range(0, count, _AT_ONCE):
        submissions, events, results = [], [], []
        for place in range(begin, min(count, begin + _AT_ONCE)):
            number, user = first + place, users[place % len(users)]
            text = f"{source}\n# {number}\n"
            median = draw.uniform(50.0, 5000.0)
            work = {"problem": problem, "problem_version": version, "workload": workload, "mode": "run", "source": text}
            shown = about(report, work, median)
            submissions.append(_submission(number, user, work, shown, now))
            events += [
                {"submission_number": number, "number": 1, "at": now, "kind": "queued", "data": "{}"},
                {"submission_number": number, "number": 2, "at": now, "kind": "done", "data": "{}"},
            ]
            results.append(_result(number, user, shown, now))
        with database.write() as session:
            session.execute(insert(Submission), submissions)
            session.execute(insert(Event), events)
            session.execute(insert(Result), results)
    _rank(database)


def _submission(number: int, user: int, work: dict[str, Any], report: dict[str, Any], now: float) -> dict[str, Any]:
    return {
        "number": number,
        "id": secrets.token_hex(10),
        "user_id": user,
        "problem_id": work["problem"],
        "problem_version": work["problem_version"],
        "workload": None,
        "device_kind": None,
        "mode": "run",
        "label": "",
        "source": work["source"].encode(),
        "source_sha256": hashlib.sha256(work["source"].encode()).hexdigest(),
        "priority": 0,
        "state": State.DONE,
        "created_at": now,
        "done_at": now,
        "verdict": "accepted",
        "reason_code": "grade.accepted",
        "report": json.dumps(report),
        "attempts": 1,
        "events": 2,
    }


def _result(number: int, user: int, report: dict[str, Any], now: float) -> dict[str, Any]:
    timing = report["timing"]
    low, high = timing["candidate"]["ci95_us"]
    return {
        "submission_number": number,
        "user_id": user,
        "problem_id": report["problem"]["id"],
        "problem_version": report["problem"]["version"],
        "workload": report["problem"]["workload"],
        "device_name": DEVICE_NAME,
        "median_us": timing["candidate"]["median_us"],
        "low_us": low,
        "high_us": high,
        "speedup": timing["speedup"],
        "speedup_low": timing["speedup_ci95"][0],
        "speedup_high": timing["speedup_ci95"][1],
        "fraction_of_floor": timing["fraction_of_floor"],
        "at": now,
    }


def _rank(database: Database) -> None:
    """Standings and boards, as the migrations that brought them made them."""
    board = "problem_id, problem_version, workload, device_name"
    ranked = (
        f"SELECT {board}, user_id, submission_number, row_number() OVER "
        f"(PARTITION BY {board}, user_id ORDER BY median_us, submission_number) AS place FROM results"
    )
    with database.write() as session:
        for statement in (
            "DELETE FROM standings",
            f"INSERT INTO standings ({board}, user_id, submission_number) "
            f"SELECT {board}, user_id, submission_number FROM ({ranked}) AS ranked WHERE place = 1",
            "DELETE FROM boards",
            f"INSERT INTO boards ({board}, changes) SELECT DISTINCT {board}, 1 FROM standings",
        ):
            session.connection().exec_driver_sql(statement)
        if database.url.get_backend_name() == "postgresql":
            session.connection().exec_driver_sql(
                "SELECT setval(pg_get_serial_sequence('submissions', 'number'), (SELECT max(number) FROM submissions))"
            )
