"""Messages between the executor and its bridge: pickled, with their length before them. Both ends are ours.

to the bridge     Ask, Cancel, Close
to the executor   Opened or Refused, then Answer for each Ask, and Say; Severed when the head is gone
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.batch.job import Job
from harness.report import Report

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True)
class Ask:
    """Build the job, or grade it with those artifacts."""

    number: int
    what: Literal["build", "grade"]
    job: Job
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cancel:
    """Nobody wants that answer any more; it is owed all the same, once the work has ended."""

    number: int


@dataclass(frozen=True)
class Close:
    """End everything, and leave."""


@dataclass(frozen=True)
class Opened:
    """The cluster can grade."""

    device: str
    kind: Literal["cuda", "cpu"]
    grade_slots: int
    build_slots: int


@dataclass(frozen=True)
class Refused:
    """The cluster can't be used, from the start or from now on: a sentence."""

    message: str


@dataclass(frozen=True)
class Severed:
    """The connection is gone, and with it what was under way. Another one may be had."""

    message: str


@dataclass(frozen=True)
class Say:
    """Something that a person should know."""

    message: str


@dataclass(frozen=True)
class Answer:
    """To the Ask of that number."""

    number: int
    how: Literal["done", "lost", "not_graded", "cancelled"]
    report: Report | None = field(default=None, repr=False)
    keys: tuple[str, ...] = ()
    message: str = ""


class Link:
    """One end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> Link:
        """Takes the socket over."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: Any) -> None:
        """Raises OSError when the other end has gone, or nothing: `receive` will tell."""
        data = pickle.dumps(message)
        self._writer.write(_LENGTH.pack(len(data)) + data)

    async def receive(self) -> Any:
        """The next message. Raises EOFError when the other end has gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            raise EOFError from None

    async def flush(self) -> None:
        """Wait until what was sent is on its way."""
        await self._writer.drain()

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
