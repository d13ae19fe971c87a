"""An old store is brought up to date with what is in it, and the tables are then what the models say."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.orm import undefer

from server.ranked import KeptBoard
from server.results import BoardKey
from server.store import Base, Database, Submission

# One of these codes is in a text and no warning.
REPORT = json.dumps(
    {
        "warnings": [{"code": "time.not_timed"}, {"code": "audit.trace_incomplete"}, {"code": "time.weakly_confirmed"}],
        "log": ["device.busy"],
    }
)


@pytest.fixture
def old(empty_url: str) -> Database:
    """A store of the first version, with rows in it."""
    database = Database(empty_url)
    database.migrate("0001")
    with database.engine.begin() as connection:
        assert "regrade_of" not in {column["name"] for column in sa.inspect(connection).get_columns("submissions")}
        connection.execute(sa.text("INSERT INTO users (id, name, created_at, last_served) VALUES (1, 'ada', 1, 0)"))
        connection.execute(
            sa.text(
                "INSERT INTO submissions (number, id, user_id, problem_id, problem_version, mode, label, source, "
                "source_sha256, priority, state, created_at, attempts, events) "
                "VALUES (7, 'abc', 1, 'p', 'v', 'run', 'old', :source, 'x', 0, 'queued', 12.5, 0, 1)"
            ),
            {"source": b"class ModelNew: ..."},
        )
        connection.execute(
            sa.text(
                "INSERT INTO events (submission_number, number, at, kind, data) VALUES (7, 1, 12.5, 'queued', '{}')"
            )
        )
        connection.execute(sa.text("INSERT INTO users (id, name, created_at, last_served) VALUES (2, 'bob', 1, 0)"))
        for number, user, median in ((8, 1, 30.0), (9, 1, 20.0), (10, 1, 25.0), (11, 2, 22.0)):
            connection.execute(
                sa.text(
                    "INSERT INTO submissions (number, id, user_id, problem_id, problem_version, mode, label, source, "
                    "source_sha256, priority, state, created_at, attempts, events) "
                    "SELECT :number, :id, :user, problem_id, problem_version, mode, label, source, source_sha256, 0, "
                    "'done', 1, 1, 0 FROM submissions WHERE number = 7"
                ),
                {"number": number, "id": f"old{number}", "user": user},
            )
            connection.execute(
                sa.text(
                    "INSERT INTO results (submission_number, user_id, problem_id, problem_version, workload, "
                    "device_name, median_us, low_us, high_us, speedup, speedup_low, speedup_high, at) "
                    "VALUES (:number, :user, 'p', 'v', 'w', 'd', :median, :median, :median, 1, 1, 1, 1)"
                ),
                {"number": number, "user": user, "median": median},
            )
        connection.execute(sa.text("UPDATE submissions SET report = :report WHERE number = 9"), {"report": REPORT})
        connection.execute(sa.text("UPDATE submissions SET report = '{}' WHERE number = 10"))
    return database


def test_an_old_store_is_upgraded_with_its_rows(old: Database):
    old.migrate()
    with old.read() as session:
        wanted = sa.select(Submission).options(undefer(Submission.source)).where(Submission.number == 7)
        kept = session.scalars(wanted).one()
        board = KeptBoard(BoardKey("p", "v", "w", "d")).entries(session, 1)
    assert [(entry.best.user, entry.best.submission_id, entry.rank) for entry in board] == [
        ("ada", "old9", 1),
        ("bob", "old11", 2),
    ]
    assert [entry.best.warnings for entry in board] == ["time.weakly_confirmed audit.trace_incomplete", ""]
    assert (kept.id, kept.state, kept.created_at, kept.source) == ("abc", "queued", 12.5, b"class ModelNew: ...")
    assert kept.regrade_of is None
    assert kept.file_name is None
    old.migrate()  # again changes nothing
    old.close()


def test_the_migrations_make_the_tables_of_the_models(old: Database):
    old.migrate()
    with old.engine.connect() as connection:
        differences = compare_metadata(
            MigrationContext.configure(connection, opts={"compare_type": True}), Base.metadata
        )
    assert differences == []
    old.close()
