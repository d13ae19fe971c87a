"""An old store is brought up to date with what is in it, and the tables are then what the models say."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from server.store import Base, Database, Submission


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
    return database


def test_an_old_store_is_upgraded_with_its_rows(old: Database):
    old.migrate()
    with old.read() as session:
        (kept,) = session.scalars(sa.select(Submission)).all()
    assert (kept.id, kept.state, kept.created_at, kept.source) == ("abc", "queued", 12.5, b"class ModelNew: ...")
    assert kept.regrade_of is None
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
