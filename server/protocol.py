"""Connections that keep others out are closed: uvicorn itself waits for slow clients for as long as they like.

A request has to begin in time, and an answer has to be taken in time. When nearly all connections are in use, each new
one takes the place of the one that has kept the server waiting for longest, so that whoever asks at once is answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 20.0
TAKEN_S = 60.0
"""In which a client has to take what was sent."""
_CROWDED = 0.9
"""Of all connections; from then on those that wait for their client go first."""


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 with time limits for clients."""

    _headers_due: asyncio.TimerHandle | None = None
    _taken_due: asyncio.TimerHandle | None = None
    _since = 0.0
    """When the client was last waited for anew."""

    def connection_made(self, transport: Any) -> None:
        """The first request is awaited."""
        super().connection_made(transport)
        self._await_headers()
        if self.limit_concurrency is not None and len(self.connections) > _CROWDED * self.limit_concurrency:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or all of it."""
        if not self.transport.get_write_buffer_size():
            self._taken()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._headers_due is None:
            self._await_headers()

    def on_response_complete(self) -> None:
        """The next request is awaited, or the connection ends once all is taken."""
        self._since = self.loop.time()
        if self.transport.get_write_buffer_size() and self._taken_due is None:
            self._taken_due = self.loop.call_later(TAKEN_S, self._cut)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        super().pause_writing()
        self._since = self.loop.time()
        if self._taken_due is None:
            self._taken_due = self.loop.call_later(TAKEN_S, self._cut)

    def resume_writing(self) -> None:
        """It has taken most of it; what is left of an answer that is over has to go in the same time."""
        super().resume_writing()
        if not self.cycle.response_complete:
            self._taken()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._stop_waiting()
        self._taken()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._since = self.loop.time()
        self._headers_due = self.loop.call_later(HEADERS_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _taken(self) -> None:
        if self._taken_due is not None:
            self._taken_due.cancel()
            self._taken_due = None

    def _cut(self) -> None:
        self._taken_due = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _give_up(self) -> None:
        self._headers_due = None
        # A request that was short enough to have been answered already leaves the connection idle, which uvicorn ends.
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    @property
    def _waits_for_client(self) -> bool:
        """For a request, the rest of one, or that an answer is taken."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body or self.flow.write_paused

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, ImpatientProtocol) and one is not self]
        waiting = [one for one in others if one._waits_for_client]
        if waiting:
            min(waiting, key=lambda one: one._since).transport.abort()
