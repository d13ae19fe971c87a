"""A store that goes away and comes back: every answer meanwhile is a 503 that says when to come again."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from server_fakes import SOURCE, Person

from benchmarks.serving.rig import Postgres
from server import keys
from server.app import expire_now, make_app
from server.catalogue import Catalogue
from server.services import Services
from server.settings import Settings
from server.store import Database, StoreAway


@dataclass
class Away:
    """A store that can be taken away."""

    database: Database
    take: Callable[[], None]
    bring: Callable[[], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Away]:
    if request.param == "sqlite":
        folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
        folder.mkdir()
        database = Database.file(folder / "store.db")

        def take() -> None:
            database.close()  # open files would stay
            os.rename(folder, elsewhere)

        made = Away(database, take, lambda: os.rename(elsewhere, folder))
        made.database.migrate()
        yield made
        database.close()
        return
    request.getfixturevalue("postgres")  # skips where there is none; this one is for killing
    folder = Path(tempfile.mkdtemp(prefix="pa-"))
    postgres = Postgres(folder)
    database = Database(postgres.url)
    database.migrate()
    yield Away(database, postgres.kill, postgres.start)
    database.close()
    postgres.stop()
    shutil.rmtree(folder)


def test_without_its_store_the_server_says_so_and_goes_on_later(
    store: Away, problems: Path, caplog: pytest.LogCaptureFixture
):
    serving = Services(store.database, Catalogue.load(problems), Settings(problems=problems))
    with store.database.write() as session:
        key = keys.create(session, "ada", "solver", 0.0)
    with TestClient(make_app(serving), raise_server_exceptions=False) as http:
        ada = Person(http, key)
        one = ada.submit()
        caplog.set_level(logging.DEBUG)
        store.take()
        body = {"problem": "scaled", "source": SOURCE}
        refused = [
            ada.post("/v1/submissions", body, headers={"Idempotency-Key": "k"}),
            ada.get(f"/v1/submissions/{one}"),
            ada.get(f"/v1/submissions/{one}/events"),
            http.get("/v1/leaderboard/scaled"),
            http.get("/v1/devices"),
            http.get("/readyz"),
        ]
        for answer in refused:
            assert answer.status_code == 503, answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["retry-after"] == "5"
            assert answer.json()["type"] == "urn:kernel-harness:no-store"
            assert "Traceback" not in answer.text
        assert http.get("/healthz").status_code == 200, "the process itself is well"
        metrics = http.get("/metrics")
        assert metrics.status_code == 200
        assert "harness_store_up 0.0" in metrics.text
        assert 'status="503"' in metrics.text
        with pytest.raises(StoreAway):
            expire_now(serving)
        away = [record for record in caplog.records if record.name == "harness.server"]
        assert away, "nobody was told"
        assert len(away) <= 2, "once in a while is enough"
        assert all(record.exc_info is None for record in away)
        store.bring()
        assert ada.post("/v1/submissions", body, headers={"Idempotency-Key": "k"}).status_code == 202
        assert http.get("/readyz").status_code == 200
        assert "harness_store_up 1.0" in http.get("/metrics").text
        assert len(ada.get("/v1/submissions").json()["items"]) == 2
