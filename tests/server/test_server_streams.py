"""Event streams: how many there may be, and that clients go on through their ends."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx
import pytest
from server_fakes import FakeAgent, Person, listening
from starlette.concurrency import run_in_threadpool

from harness.client import AsyncClient, Client, ClientError, Patience
from server import keys
from server.api.problems_json import ApiError
from server.api.stream import Streams
from server.app import make_app
from server.keys import Caller
from server.services import Services
from server.settings import Settings
from server.store import Database

ONCE = Patience(retries=0, first_pause_s=0.001, longest_pause_s=0.01)


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """What streams may do is the same over either store."""
    shutil.copy(sqlite_template, tmp_path / "store.db")
    made = Database.file(tmp_path / "store.db")
    yield made
    made.close()


def made_keys(serving: Services, *names: str) -> list[str]:
    with serving.database.write() as session:
        roles = {"machine": "agent"}
        return [keys.create(session, name, roles.get(name, "solver"), serving.clock()) for name in names]


@contextmanager
def opened(person: Person, submission: str) -> Iterator[httpx.Response]:
    """A stream of which something has come, or its refusal."""
    path = f"/v1/submissions/{submission}/events"
    with person.http.stream("GET", path, headers=person.headers) as answer:
        if answer.status_code == 200:
            pieces = answer.iter_raw()  # held: a stream that is read no more is closed
            next(pieces)
        else:
            answer.read()
        yield answer


def test_a_key_has_room_for_so_many_streams_and_no_more(serving: Services):
    serving.settings = replace(serving.settings, streams_per_key=3)
    ada_key, bob_key = made_keys(serving, "ada", "bob")
    with listening(serving) as url, httpx.Client(base_url=url) as http, ExitStack() as streams:
        ada, bob = Person(http, ada_key), Person(http, bob_key)
        one, other = ada.submit(), bob.submit()
        for _ in range(3):
            assert streams.enter_context(opened(ada, one)).status_code == 200
        with opened(ada, one) as refused:
            assert refused.status_code == 429
            assert refused.headers["content-type"] == "application/problem+json"
            assert int(refused.headers["retry-after"]) > 0
            told = refused.json()
            assert told["type"] == "urn:kernel-harness:too-many-streams"
            assert "all 3 streams" in told["detail"]
        with opened(bob, other) as answer:
            assert answer.status_code == 200
            assert "harness_streams_open 4.0" in http.get("/metrics").text
        assert http.get("/healthz").text == "ok\n"
        assert ada.show(one)["state"] == "queued"
        streams.close()
        until = time.monotonic() + 20
        while True:  # the server sees that they are gone a moment later
            with opened(ada, one) as answer:
                if answer.status_code == 200:
                    break
            assert time.monotonic() < until


def caller(name: str) -> Caller:
    return Caller(1, name, name, "solver", None, None)


def test_what_is_left_when_many_are_open_is_for_those_who_have_few():
    streams, settings = Streams(), Settings(problems=Path(), streams_per_key=8, streams=20)
    with ExitStack() as open_ones:
        for name in ("a", "b"):
            for _ in range(8):
                open_ones.enter_context(streams.one(caller(name), settings))
        for name, most in (("a", 0), ("c", 4)):
            for _ in range(most):
                open_ones.enter_context(streams.one(caller(name), settings))
            with pytest.raises(ApiError) as told, streams.one(caller(name), settings):
                pass
            assert (told.value.status, told.value.code) == (429, "too-many-streams")
    with pytest.raises(ZeroDivisionError), streams.one(caller("a"), settings):
        raise ZeroDivisionError
    with ExitStack() as open_ones:  # nothing was left over
        for name in ("a", "b"):
            for _ in range(8):
                open_ones.enter_context(streams.one(caller(name), settings))


def test_five_hundred_streams_of_several_keys_have_room():
    streams, settings = Streams(), Settings(problems=Path())
    with ExitStack() as open_ones:
        for number in range(500):
            open_ones.enter_context(streams.one(caller(f"user{number % 5}"), settings))
        with streams.one(caller("another"), settings):
            pass


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_clients_go_on_through_the_ends_of_their_streams(serving: Services, kind: Any):
    serving.settings = replace(serving.settings, stream_s=0.1)
    ada, machine = made_keys(serving, "ada", "machine")
    told: list[ClientError] = []
    with listening(serving) as url, httpx.Client(base_url=url) as http:
        submission = Person(http, ada).submit()
        opened_streams = _count_streams(serving)

        def grade() -> None:
            until = time.monotonic() + 30
            while len(opened_streams) < 5 and time.monotonic() < until:
                time.sleep(0.02)
            agent = FakeAgent(Person(http, machine), serving.catalogue.versions)
            agent.report(agent.work())

        grading = threading.Thread(target=grade)
        grading.start()
        client = kind(url, ada, patience=ONCE, on_pause=lambda _, error: told.append(error))
        seen = asyncio.run(_watched(client, submission)) if kind is AsyncClient else list(client.watch(submission))
        grading.join()
    assert [event.kind for event in seen] == ["queued", "claimed", "done"]
    assert len(opened_streams) >= 5
    assert told == []  # nothing has failed, and nothing is said


def _count_streams(serving: Services) -> list[str]:
    found, listen = [], serving.hub.listening

    def listening_(topic: str) -> Any:
        found.append(topic)
        return listen(topic)

    serving.hub.listening = listening_  # type: ignore[method-assign]
    return found


async def _watched(client: AsyncClient, submission: str) -> list[Any]:
    async with client:
        return [event async for event in client.watch(submission)]


def test_whoever_finds_no_room_for_a_stream_waits_for_it(serving: Services, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("server.api.stream._AGAIN_S", 0)
    serving.settings = replace(serving.settings, streams_per_key=1)
    (ada,) = made_keys(serving, "ada")
    refusals: list[ClientError] = []
    with listening(serving) as url, httpx.Client(base_url=url) as http:
        person = Person(http, ada)
        submission = person.submit()
        room = ExitStack()
        room.enter_context(opened(person, submission))

        def paused(_: float, error: ClientError) -> None:
            refusals.append(error)
            if len(refusals) == 4:  # more than its patience would bear, were they failures
                room.close()
                person.delete(f"/v1/submissions/{submission}")

        patience = replace(ONCE, retries=1)
        with Client(url, ada, patience=patience, on_pause=paused) as client:
            assert [event.kind for event in client.watch(submission)] == ["queued", "cancelled"]
    assert len(refusals) >= 4
    assert all("streams that it may" in str(error) for error in refusals)


def test_the_process_answers_while_all_threads_wait(serving: Services):
    async def ask() -> str:
        app, held = make_app(serving), threading.Event()
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        waiting = asyncio.create_task(run_in_threadpool(held.wait, 30))
        await asyncio.sleep(0)
        transport = httpx.ASGITransport(app=app)
        try:
            async with asyncio.timeout(10), httpx.AsyncClient(transport=transport, base_url="http://here") as http:
                return (await http.get("/healthz")).text
        finally:
            held.set()
            await waiting

    assert asyncio.run(ask()) == "ok\n"
