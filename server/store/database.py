"""Connections to the store, SQLite or PostgreSQL, and its migrations.

SQLite has one writer at a time. A transaction that reads first and writes later can't be upgraded when another one
wrote in between, so writers say from the start that they write, and stand in line for the one connection they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.orm import Session

_MIGRATIONS = Path(__file__).parent / "migrations"


_CONNECTIONS = 16
"""Kept open at most. Fewer than threads: what holds one is short, and each has its own cache."""
# A connection that hangs, because its server's machine or the network has gone, is given up and not waited for.
_POSTGRESQL = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class StoreAway(Exception):
    """The store can't be reached, is full, or refuses for the moment; whether the last change was kept is not known.
    The message is its own first line."""


class Database:
    """One store. `read` and `write` are transactions; what `write` did is on disk when it is left."""

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        if self.url.get_backend_name() == "postgresql":
            self.url = self.url.set(drivername="postgresql+psycopg")
            self._reader = self._writer = sa.create_engine(
                self.url,
                pool_size=_CONNECTIONS,
                max_overflow=0,
                pool_timeout=10,
                pool_pre_ping=True,
                pool_use_lifo=True,
                connect_args=_POSTGRESQL,
            )
            return
        if self.url.get_backend_name() != "sqlite":
            raise ValueError(f"a store is SQLite or PostgreSQL, not {self.url.get_backend_name()}")
        self._reader = _sqlite(self.url, "BEGIN", pool_size=_CONNECTIONS)
        self._writer = _sqlite(self.url, "BEGIN IMMEDIATE", pool_size=1)

    @classmethod
    def file(cls, path: Path) -> Database:
        """SQLite in a file."""
        return cls(f"sqlite:///{path}")

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that changes nothing. Raises StoreAway."""
        with _told_when_away(), Session(self._reader, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction; committed when the block ends, rolled back when it raises. Raises StoreAway."""
        with _told_when_away(), Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables to a revision. Raises StoreAway."""
        with _told_when_away(), self._writer.connect() as connection:
            command.upgrade(_config(connection), revision)
            connection.commit()

    @property
    def engine(self) -> sa.Engine:
        """For tests that look at the tables themselves."""
        return self._writer

    def close(self) -> None:
        """Give every connection back."""
        self._reader.dispose()
        self._writer.dispose()


@contextmanager
def _told_when_away() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError, NoConnection) as error:
        raise StoreAway(_first_line(error)) from error
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise StoreAway(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]


def _config(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def _sqlite(url: sa.URL, begin: str, pool_size: int) -> sa.Engine:
    engine = sa.create_engine(
        url,
        connect_args={"timeout": 30.0},
        poolclass=sa.QueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_use_lifo=True,  # those that are needed only now and then keep their caches small
    )

    @sa.event.listens_for(engine, "connect")
    def connect(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver's own idea of when to begin is not ours
        connection.execute("PRAGMA journal_mode=WAL")
        # FULL: what was answered with 202 must survive a power cut, and in WAL mode less than this does not.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def start(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
