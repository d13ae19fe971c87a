"""A lean HTTP client, and requests that begin when they are due.

Requests of an open loop begin at a fixed rate, whether or not earlier ones were answered, and are timed from when they
were due: a server that stalls is seen in every request that should have been sent meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = tuple[int, bytes]
_KEEP_S = 5.0


class Connections:
    """Kept-alive connections to one server, as many as are in use at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def request(self, method: str, path: str, key: str, body: bytes = b"", headers: str = "") -> Answer:
        """One request. Raises OSError and asyncio.IncompleteReadError when the connection fails."""
        reader, writer = self._waiting() or await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(_head(method, path, key, len(body), headers) + body)
            status, fields = await _answer_head(reader)
            data = await reader.readexactly(int(fields.get(b"content-length", b"0")))
        except BaseException:
            writer.close()
            raise
        if fields.get(b"connection") == b"close":
            writer.close()
        else:
            self._idle.append((time.monotonic(), reader, writer))
        return status, data

    def _waiting(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The one that was used last; the server ends those that were not for a while."""
        if self._idle:
            used, reader, writer = self._idle.pop()
            if time.monotonic() - used < _KEEP_S and not reader.at_eof():
                return reader, writer
            writer.close()
            self.close()
        return None

    @asynccontextmanager
    async def stream(self, path: str, key: str) -> AsyncIterator[AsyncIterator[tuple[str, bytes]]]:
        """The events of a stream, kind and data, on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        try:
            writer.write(_head("GET", path, key, 0, ""))
            status, _ = await _answer_head(reader)
            if status != 200:
                raise ConnectionError(f"the stream is answered with {status}")
            yield _events(reader)
        finally:
            writer.close()

    def close(self) -> None:
        """Close those that wait for a request."""
        while self._idle:
            self._idle.pop()[2].close()


def _head(method: str, path: str, key: str, length: int, headers: str) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    ).encode()


async def _answer_head(reader: asyncio.StreamReader) -> tuple[int, dict[bytes, bytes]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    fields = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields[name.lower()] = value.strip()
    return int(first.split(b" ", 2)[1]), fields


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[tuple[str, bytes]]:
    kind, data = "", b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        chunk = await reader.readexactly(size + 2)
        for line in chunk.split(b"\n"):
            if line.startswith(b"event: "):
                kind = line[7:].decode()
            elif line.startswith(b"data: "):
                data = line[6:]
            elif not line and data:
                yield kind, data
                data = b""


@dataclass
class Latencies:
    """What became of the requests of one loop."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def ms(self, quantile: float) -> float:
        """A quantile, in milliseconds; infinite when a request of that rank failed."""
        in_order = sorted(self.seconds) + [float("inf")] * len(self.failures)
        return 1e3 * in_order[min(len(in_order) - 1, int(quantile * len(in_order)))]


Send = Callable[[int], Awaitable[Answer]]


async def open_loop(send: Send, rate: float, seconds: float, expect: int) -> Latencies:
    """Requests at a fixed rate; `send(n)` is the n-th one."""
    loop = asyncio.get_running_loop()
    found = Latencies()
    running: set[asyncio.Task[None]] = set()
    begin = loop.time()

    async def one(number: int, due: float) -> None:
        try:
            status, body = await send(number)
        except (OSError, asyncio.IncompleteReadError) as error:
            found.failures.append(f"{type(error).__name__}: {error}")
            return
        if status == expect:
            found.seconds.append(loop.time() - due)
        else:
            found.failures.append(f"{status}: {body[:200]!r}")

    for number in range(int(rate * seconds)):
        due = begin + number / rate
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(number, due))
        running.add(task)
        task.add_done_callback(running.discard)
    if running:
        await asyncio.wait(running)
    return found


async def closed_loop(send: Send, at_once: int, seconds: float, expect: int) -> tuple[int, list[str]]:
    """As many as it takes: `at_once` requests are always under way. How many were answered, and what failed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    failures: list[str] = []
    done = sent = 0

    async def one() -> None:
        nonlocal done, sent
        while loop.time() < until:
            sent += 1
            status, body = await send(sent)
            if status == expect:
                done += 1
            else:
                failures.append(f"{status}: {body[:200]!r}")

    await asyncio.gather(*(one() for _ in range(at_once)))
    return done, failures
