"""Bodies that never end, and an agent's reports over a bad network."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from server import protocol
from server.agent.link import Link, Refused, Unreachable
from server.agent.loop import _Reporter
from server.api.limits import BodyLimits
from server.keys import Caller
from server.log import NowAndThen
from server.serve import ServeError, _within_descriptors
from server.settings import Settings

CALLER = Caller(1, "ada", "key", "solver", None, None)


def answered(
    messages: list[dict[str, Any]],
    limits: BodyLimits,
    *,
    path: str = "/v1/submissions",
    headers: dict[str, str] | None = None,
) -> int:
    """The status with which a request of these messages is answered; after the last one, nothing comes."""
    return asyncio.run(answer(messages, limits, path, headers or {}))


async def answer(messages: list[dict[str, Any]], limits: BodyLimits, path: str, headers: dict[str, str]) -> int:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    told = [(name.encode(), value.encode()) for name, value in headers.items()]
    await limits({"type": "http", "method": "POST", "path": path, "headers": told}, receive, send)  # type: ignore[arg-type]
    return int(sent[0]["status"])


def limits_of(settings: Settings, caller: Caller | None = None, app: Any = None) -> BodyLimits:
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def sender(_: Any) -> Caller | None:
        return caller

    return BodyLimits(app or echo, settings, sender)


def piece(size: int, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": b"x" * size, "more_body": more}


def test_a_body_has_to_end_in_time_and_within_its_limit():
    limits = limits_of(replace(Settings(problems=Path()), max_body_bytes=100, body_s=0.2))
    assert answered([piece(60), piece(40, more=False)], limits) == 200
    assert answered([piece(60), piece(41), piece(1)], limits) == 413
    assert answered([piece(60), piece(41, more=False)], limits) == 413
    assert answered([], limits, headers={"content-length": "101"}) == 413
    assert answered([], limits, headers={"content-length": "1" * 30}) == 413
    assert answered([piece(60)], limits) == 408


def test_nobody_without_a_key_sends_much():
    settings = Settings(problems=Path())
    small, large = [piece(60_000, more=False)], [piece(60_000), piece(60_000, more=False)]
    nobody, solver = limits_of(settings), limits_of(settings, CALLER)
    agent = limits_of(settings, replace(CALLER, role="agent"))
    assert answered(list(small), nobody) == 200
    assert answered(list(large), nobody) == 401
    assert answered([], nobody, headers={"content-length": "120000"}) == 401, "none of it has to come"
    assert answered(list(large), solver) == 200
    assert answered(list(large), solver, path="/v1/agent/attempts/1/report") == 401
    assert answered(list(large), agent, path="/v1/agent/attempts/1/report") == 200
    assert answered([piece(5 << 20), piece(1)], solver) == 413


def test_the_bodies_of_one_key_leave_room_for_others():
    callers = [CALLER, CALLER, CALLER, replace(CALLER, key_id="other")]

    async def send_all() -> list[int]:
        go_on = asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            await go_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        left = list(callers)

        async def sender(_: Any) -> Caller:
            return left.pop(0)

        # Room for two of each key, and for eight of all.
        limits = BodyLimits(slow, replace(Settings(problems=Path()), bodies_bytes=800_000), sender)
        size = {"content-length": "100000"}
        asked = [
            asyncio.create_task(answer([piece(100_000, more=False)], limits, "/v1/submissions", size)) for _ in callers
        ]
        await asyncio.sleep(0.1)
        go_on.set()
        found = await asyncio.gather(*asked)
        left.append(CALLER)
        return [*found, await answer([piece(100_000, more=False)], limits, "/v1/submissions", size)]

    assert asyncio.run(send_all()) == [200, 200, 429, 200, 200]


class Network:
    """Answers renewals, and loses what it is told to lose."""

    def __init__(self) -> None:
        self.lose: list[str] = []
        self.taken: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        how = self.lose.pop(0) if self.lose else ""
        if how == "request":
            raise httpx.ConnectError("lost")
        body = json.loads(request.content)
        # As the server does: what was told before is not taken again.
        for number, event in enumerate(body["events"], body["first"]):
            if number > len(self.taken):
                self.taken.append(event["stage"])
        if how == "answer":
            raise httpx.ReadTimeout("lost")
        if how == "busy":
            return httpx.Response(503)
        if how == "no":
            return httpx.Response(404, json={"detail": "There is no such attempt."})
        return httpx.Response(200, json={"standing": "active"})


def test_no_event_is_lost_or_told_twice_on_a_bad_network():
    network = Network()
    link = Link("http://server", "key", transport=httpx.MockTransport(network))
    reporter = _Reporter(link, {"token": "t", "attempt_id": 1, "lease_s": 60.0})
    network.lose = ["request", "answer", "busy", "", "answer", ""]
    for stage in ("load", "build", "check", "time", "audit", "judge"):
        reporter.add({"kind": "stage_started", "stage": stage})
        assert reporter.flush(), "a network that fails is no reason to stop"
    assert network.taken == ["load", "build", "check", "time", "audit", "judge"]
    network.lose = ["no"]
    assert not reporter.flush()


def test_of_progress_only_the_latest_is_told():
    network = Network()
    reporter = _Reporter(
        Link("http://server", "key", transport=httpx.MockTransport(network)),
        {"token": "t", "attempt_id": 1, "lease_s": 60.0},
    )
    for number in range(50):
        reporter.add({"kind": "progress", "stage": str(number), "message": "m"})
    reporter.flush()
    assert network.taken == ["49"]


def test_insisting_ends_with_an_answer_a_refusal_or_when_told():
    answers = [httpx.Response(500), httpx.Response(200, json={"counted": True}), httpx.Response(409, json={})]
    link = Link("http://server", "key", transport=httpx.MockTransport(lambda _: answers.pop(0)))
    assert link.insist("/x", {}, give_up=lambda: False) == {"counted": True}
    with pytest.raises(Refused):
        link.insist("/x", {}, give_up=lambda: False)
    answers.append(httpx.Response(503))
    with pytest.raises(Unreachable):
        link.insist("/x", {}, give_up=lambda: True)


def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "HEADERS_S", 0.3)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.6)  # an answer may take longer than headers may
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def talk() -> tuple[bytes, bytes]:
        config = uvicorn.Config(app, port=0, http=protocol.ImpatientProtocol, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        running = asyncio.create_task(server._serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        slow, slow_out = await asyncio.open_connection("127.0.0.1", port)
        good, good_out = await asyncio.open_connection("127.0.0.1", port)
        slow_out.write(b"GET / HTTP/1.1\r\nHost:")
        good_out.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            ended, answer = await slow.read(), await good.read(1000)
        good_out.close()
        server.should_exit = True
        await running
        return ended, answer

    ended, answer = asyncio.run(talk())
    assert ended == b""
    assert answer.startswith(b"HTTP/1.1 200")


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An answer of the size that the path says."""
    body = b"x" * int(scope["path"][1:])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncIterator[int]:
    """The port of a server in this loop."""
    config = uvicorn.Config(app, port=0, http=protocol.ImpatientProtocol, lifespan="off", log_level="error", **options)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await running


async def ask(port: int, path: str) -> bytes:
    taken, out = await asyncio.open_connection("127.0.0.1", port)
    out.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await taken.read()
    out.close()
    return answer


@pytest.mark.parametrize(
    "kept", [b"", b"GET /2 HTTP/1.1\r\nHo", b"POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"]
)
def test_those_who_keep_a_crowded_server_waiting_give_way(kept: bytes):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while scope["method"] == "POST" and (await receive()).get("more_body"):
            pass
        await nothing(scope, receive, send)

    async def crowd() -> bytes:
        async with served(app, limit_concurrency=20) as port, asyncio.timeout(20):
            others = []
            for _ in range(25):
                others.append(await asyncio.open_connection("127.0.0.1", port))
                others[-1][1].write(kept)
                await others[-1][1].drain()
            await asyncio.sleep(0.1)
            answer = await ask(port, "/2")
            for _, out in others:
                out.close()
            return answer

    assert asyncio.run(crowd()).startswith(b"HTTP/1.1 200")


def test_whoever_takes_no_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "TAKEN_S", 0.3)

    async def talk() -> bytes:
        async with served(nothing) as port, asyncio.timeout(20):
            assert len(await ask(port, "/30000000")) > 30_000_000, "who takes it gets all of it"
            with socket.create_connection(("127.0.0.1", port)) as slow:
                slow.sendall(b"GET /30000000 HTTP/1.1\r\nHost: x\r\n\r\n")
                await asyncio.sleep(1.0)
                slow.settimeout(5)
                return await asyncio.to_thread(_all_of, slow)

    assert len(asyncio.run(talk())) < 30_000_000


def _all_of(connection: socket.socket) -> bytes:
    taken = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 20):
            taken += piece
    return taken


def test_a_warning_that_strangers_cause_is_written_now_and_then():
    now = [0.0]
    told = NowAndThen(lambda: now[0])

    def written(text: str, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("uvicorn.error", level, "", 0, text, (), None)
        return record.getMessage() if told.filter(record) else None

    assert [written("bad"), written("bad"), written("worse"), written("bad")] == ["bad", None, "worse", None]
    assert [written("failed", logging.ERROR) for _ in range(2)] == ["failed", "failed"]
    now[0] = 11.0
    assert written("bad") == "bad (and 2 more times since the last such line)"
    assert written("bad") is None


def test_a_server_takes_no_more_connections_than_it_may_have_files(monkeypatch: pytest.MonkeyPatch):
    limits = [(1024, 1024)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    settings = _within_descriptors(Settings(problems=Path()))
    assert (settings.connections, settings.streams) == (1024 - 256, (1024 - 256) // 2)
    limits.append((1024, 100_000))
    settings = _within_descriptors(Settings(problems=Path()))
    assert (settings.connections, settings.streams, limits[-1]) == (2000, 1000, (2256, 100_000))
    limits.append((300, 300))
    with pytest.raises(ServeError, match="ulimit"):
        _within_descriptors(Settings(problems=Path()))
