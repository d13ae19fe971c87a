"""Both clients against a real server, and against one that fails in all the ways that servers and networks do."""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_fakes import SOURCE, FakeAgent, Person, listening

from harness.client import (
    AsyncClient,
    Client,
    ClientError,
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    Patience,
    ServerFailed,
    TooMany,
    Unreachable,
)
from harness.client.answers import EventReader
from harness.client.requests import Request
from server import keys
from server.services import Services
from server.store import Database

AT_ONCE = Patience(retries=3, first_pause_s=0.001, longest_pause_s=0.01)


class Both:
    """Calls the methods of either client and gives what they give, lists for what comes one by one."""

    def __init__(self, client: Client | AsyncClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._loop = client, loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            found = getattr(self._client, name)(*args, **options)
            if inspect.isasyncgen(found):
                return self._loop.run_until_complete(_all(found))
            if inspect.iscoroutine(found):
                return self._loop.run_until_complete(found)
            return list(found) if inspect.isgenerator(found) else found

        return call


async def _all(found: Any) -> list[Any]:
    return [one async for one in found]


@pytest.fixture(params=[Client, AsyncClient], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Both]]:
    """Makes clients of one kind."""
    loop = asyncio.new_event_loop()
    made: list[Client | AsyncClient] = []

    def connect(server: str, key: str | None = None, **options: Any) -> Both:
        made.append(request.param(server, key, patience=AT_ONCE, **options))
        return Both(made[-1], loop)

    yield connect
    for client in made:
        if isinstance(client, Client):
            client.close()
        else:
            loop.run_until_complete(client.aclose())
    loop.close()


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """One kind will do: which it is makes no difference here."""
    shutil.copy(sqlite_template, tmp_path / "store.db")
    made = Database.file(tmp_path / "store.db")
    yield made
    made.close()


@pytest.fixture
def live(serving: Services) -> Iterator[tuple[str, dict[str, str]]]:
    """A server's address, and keys of ada, bob and an agent."""
    with serving.database.write() as session:
        made = {
            name: keys.create(session, name, role, serving.clock())
            for name, role in (("ada", "solver"), ("bob", "solver"), ("machine", "agent"))
        }
    with listening(serving) as url:
        yield url, made


def test_a_client_does_all_that_the_server_offers(live: Any, connect: Any, serving: Services):
    url, made = live
    ada = connect(url, made["ada"])
    one = ada.submit("scaled", SOURCE, label="first", idempotency_key="once")
    assert ada.submit("scaled", SOURCE, label="first", idempotency_key="once")["id"] == one["id"]
    two = ada.submit("scaled", SOURCE, mode="check")
    assert ada.cancel(two["id"])["state"] == "cancelled"
    with httpx.Client(base_url=url) as http:
        agent = FakeAgent(Person(http, made["machine"]), serving.catalogue.versions)
        work = agent.work()
        agent.renew(work, {"kind": "stage_started", "stage": "build"})
        agent.report(work, log="hello\n")
    assert [event.kind for event in ada.watch(one["id"])] == ["queued", "claimed", "stage_started", "done"]
    assert [event.kind for event in ada.watch(one["id"], last_event_id="2")] == ["stage_started", "done"]
    assert ada.wait(one["id"])["verdict"] == "accepted"
    assert ada.submission(one["id"])["report"]["log"] == "hello\n"
    assert (ada.log(one["id"]), ada.source(one["id"])) == ("hello\n", SOURCE)
    again = ada.regrade(one["id"], idempotency_key="again")
    assert ada.regrade(one["id"], idempotency_key="again")["id"] == again["id"]
    assert [found["id"] for found in ada.submissions()] == [again["id"], two["id"], one["id"]]
    assert [found["id"] for found in ada.submissions(state="cancelled")] == [two["id"]]
    assert [found["id"] for found in ada.problems()] == ["other", "scaled"]
    assert ada.problem("scaled")["workloads"]
    assert [found["kind"] for found in ada.devices()] == ["cpu"]
    assert [entry["user"] for entry in ada.leaderboard("scaled")["entries"]] == ["ada"]


def test_every_refusal_has_its_class_and_the_servers_words(live: Any, connect: Any):
    url, made = live
    ada, bob, nobody = connect(url, made["ada"]), connect(url, made["bob"]), connect(url)
    one = ada.submit("scaled", SOURCE)
    for kind, code, call in (
        (NotAllowed, "no-key", lambda: nobody.submissions()),
        (NotAllowed, "wrong-role", lambda: ada.submit("scaled", SOURCE, priority=5)),
        (NotFound, "no-such-submission", lambda: bob.submission(one["id"])),
        (NotFound, "no-such-submission", lambda: bob.watch(one["id"])),
        (NotFound, "no-such-problem", lambda: ada.problem("a?b#c")),
        (Conflict, "not-done", lambda: ada.regrade(one["id"])),
        (Invalid, "no-such-problem", lambda: ada.submit("none", SOURCE)),
        (Invalid, "invalid-request", lambda: ada.submit("scaled", SOURCE, label="two\nlines")),
    ):
        with pytest.raises(kind) as told:
            call()
        assert told.value.code == code
        assert told.value.detail in str(told.value)
    for name in ("", ".", ".."):
        with pytest.raises(ClientError, match="no name"):
            ada.submission(name)


class Scripted:
    """A server that answers as it was told, once for each request: status, headers and body; None: it hangs up."""

    def __init__(self, *answers: tuple[int, dict[str, str], str] | None) -> None:
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        left = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                told = left.pop(0)
                self.close_connection = True
                if told is None:
                    return
                status, headers, body = told
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def good(found: Any) -> tuple[int, dict[str, str], str]:
    return 200, {"Content-Type": "application/json"}, json.dumps(found)


def bad(status: int, **headers: str) -> tuple[int, dict[str, str], str]:
    body = {"type": "urn:kernel-harness:x", "title": "X", "status": status, "detail": "Not now."}
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body)


def event(number: int, kind: str) -> str:
    return f'id: {number}\nevent: {kind}\ndata: {{"at": {number}}}\n\n'


def test_what_got_lost_is_sent_again_under_the_same_key(connect: Any):
    with Scripted(None, bad(503), (502, {}, "<html>"), good({"id": "a"})) as server:
        assert connect(server.url).submit("p", "s") == {"id": "a"}
    sent = {headers["idempotency-key"] for _, _, headers in server.seen}
    assert len(server.seen) == 4
    assert len(sent) == 1


def test_patience_ends(connect: Any):
    told: list[tuple[float, ClientError]] = []
    with Scripted(None, None, None, None, good({})) as server:
        with pytest.raises(Unreachable, match="check the address"):
            connect(server.url, on_pause=lambda seconds, error: told.append((seconds, error))).submission("a")
        assert len(server.seen) == 4
    assert [type(error) for _, error in told] == [Unreachable] * 3
    assert all(0 < seconds <= 0.01 for seconds, _ in told)
    # A server that is too far away in time is not waited for, and one that failed is not asked again.
    for answer, kind in ((bad(429, Retry_After="60"), TooMany), (bad(500), ServerFailed)):
        with Scripted(answer, good({})) as server:
            with pytest.raises(kind, match=r"Not now\."):
                connect(server.url).submission("a")
            assert len(server.seen) == 1


def test_a_stream_goes_on_where_it_broke_off(connect: Any):
    stream = {"Content-Type": "text/event-stream"}
    with Scripted(
        (200, stream, f"retry: 2000\n\n: hello\n\n{event(1, 'queued')}id: 2\nevent: claimed\nda"),
        None,
        bad(503),
        (200, stream, event(2, "claimed")),
        (200, stream, event(3, "stage_started") + event(4, "done") + event(5, "queued")),
    ) as server:
        events = connect(server.url).watch("a")
    assert [(event.id, event.kind) for event in events[:4]] == [
        ("1", "queued"),
        ("2", "claimed"),
        ("3", "stage_started"),
        ("4", "done"),
    ]
    assert [headers.get("last-event-id") for _, _, headers in server.seen] == [None, "1", "1", "1", "2"]


def test_a_stream_that_never_comes_is_given_up(connect: Any):
    empty = (200, {"Content-Type": "text/event-stream"}, "")
    with Scripted(empty, empty, empty, empty) as server, pytest.raises(Unreachable, match="may be stopping"):
        connect(server.url).watch("a")


def test_what_is_no_harness_server_is_told_so(connect: Any):
    for answer in (good([]), (200, {}, "<html>"), (302, {"Location": "https://elsewhere.example/"}, "")):
        with Scripted(answer) as server, pytest.raises(ClientError, match=r"no harness server|elsewhere\.example"):
            connect(server.url).submission("a")
    for address in ("", "example.com", "ftp://example.com", "http://", "http://[", "http://a:b"):
        with pytest.raises(ClientError, match="no address"):
            connect(address)
    with pytest.raises(ClientError, match="characters"):
        connect("http://127.0.0.1:9", "kéy")


def test_what_no_server_does_twice_is_not_sent_twice():
    post = Request("POST", "/x")
    lost, busy = Unreachable("lost"), TooMany(429, "", "", None)
    assert Patience().pause_s(post, lost, 1) is None
    assert Patience().pause_s(post, busy, 1) is not None
    assert Patience().pause_s(Request("GET", "/x"), lost, 1) is not None
    assert Patience().pause_s(post, TooMany(429, "", "", 7.0), 1) == 7.0


def test_a_client_takes_what_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "config.toml"
    monkeypatch.setenv("HARNESS_CONFIG", str(file))
    monkeypatch.delenv("HARNESS_SERVER", raising=False)
    monkeypatch.setenv("HARNESS_KEY", "from-environment")
    with Scripted(good([])) as server:
        file.write_text(f'server = "{server.url}"\nkey = "from-file"\n')
        with Client() as client:
            assert client.devices() == []
    assert server.seen[0][2]["authorization"] == "Bearer from-environment"
    file.write_text("server = 3\n")
    with pytest.raises(ClientError, match="no text"):
        Client()


def test_lines_of_any_form_are_events_or_nothing():
    reader = EventReader()
    lines = [":x", "", "data:{", 'data: "a": 1}', "id:7", "event: done", "strange", "", "event: y", ""]
    found = [event for line in lines if (event := reader.take(line)) is not None]
    assert [(event.id, event.kind, event.data) for event in found] == [("7", "done", {"a": 1})]
    with pytest.raises(ClientError, match="understood"):
        [reader.take(line) for line in ("data: [1]", "")]
