"""A store of each kind, and a server over it that grades nothing by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient
from server_fakes import Clock, Person, write_problem

from server import keys
from server.app import make_app
from server.catalogue import Catalogue
from server.services import Services
from server.settings import Settings
from server.store import Base, Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The folder of a PostgreSQL server's socket; of its databases `store` has the tables, and `empty` nothing."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not on PATH")
    # It refuses to run as root, and its socket's path has to be short.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if user is not None:
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"

    def run(*command: str) -> None:
        ran = subprocess.run(command, user=user, cwd=folder, capture_output=True, text=True, env=_plain())
        assert ran.returncode == 0, f"{ran.stderr}{log.read_text() if log.exists() else ''}"

    run("initdb", "-D", str(data), "-U", "harness", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
    # As fast as it gets: the tests are about what it keeps while it runs.
    options = f"-c listen_addresses= -k {folder} -c fsync=off -c synchronous_commit=off"
    ran = subprocess.run(
        ["pg_ctl", "-D", str(data), "-l", str(log), "-o", options, "-w", "start"],
        user=user,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_plain(),
    )
    assert ran.returncode == 0, log.read_text()
    try:
        for name in ("store", "empty"):
            _run_sql(str(folder), "postgres", f"CREATE DATABASE {name}")
        made = Database(_url(str(folder), "store"))
        made.migrate()
        made.close()
        yield str(folder)
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _url(folder: str, name: str) -> str:
    return f"postgresql://harness@/{name}?host={folder}"


def _run_sql(folder: str, database: str, statement: str) -> None:
    with psycopg.connect(host=folder, user="harness", dbname=database, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    folder: str = request.getfixturevalue("postgres")
    _run_sql(folder, "empty", "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return _url(folder, "empty")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = Database.file(path)
    database.migrate()
    database.close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty store."""
    if request.param == "sqlite":
        path = tmp_path / "store.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        made = Database.file(path)
    else:
        folder: str = request.getfixturevalue("postgres")
        # Emptied and not made anew: that takes a tenth of the time.
        _run_sql(folder, "store", f"TRUNCATE {', '.join(Base.metadata.tables)} RESTART IDENTITY CASCADE")
        made = Database(_url(folder, "store"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small problems."""
    folder = tmp_path_factory.mktemp("problems")
    for name in ("scaled", "other"):
        write_problem(folder / name)
    return folder


@pytest.fixture
def serving(database: Database, problems: Path) -> Services:
    """What a server has, with a clock that stands still."""
    return Services(database, Catalogue.load(problems), Settings(problems=problems), clock=Clock())


@pytest.fixture
def http(serving: Services) -> Iterator[TestClient]:
    """The server."""
    with TestClient(make_app(serving), raise_server_exceptions=False) as client:
        yield client


def _person(serving: Services, http: TestClient, name: str, role: str) -> Person:
    with serving.database.write() as session:
        key = keys.create(session, name, role, serving.clock())
    return Person(http, key)


@pytest.fixture
def ada(serving: Services, http: TestClient) -> Person:
    """A solver."""
    return _person(serving, http, "ada", "solver")


@pytest.fixture
def bob(serving: Services, http: TestClient) -> Person:
    """Another one."""
    return _person(serving, http, "bob", "solver")


@pytest.fixture
def admin(serving: Services, http: TestClient) -> Person:
    """An admin."""
    return _person(serving, http, "root", "admin")


@pytest.fixture
def worker(serving: Services, http: TestClient) -> Person:
    """Whoever runs agents."""
    return _person(serving, http, "machine", "agent")
