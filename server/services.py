"""What every request has at hand."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from server.arrivals import Arrivals
from server.catalogue import Catalogue
from server.keys import Rates
from server.queue import AgentsHere, Queue, WaitsFor
from server.ranked import Leaderboards
from server.settings import Settings
from server.store import Database, StoreAway, Submission


class Hub:
    """Wakes those who wait for something to change.

    Only a hint: who is woken looks into the store, and who is not looks there now and then, so that several server
    processes on one store work as well.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.closing = False

    def open(self) -> None:
        """To be called on the loop that the waiters run on."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Wake everybody for the last time: who waits should go."""
        self.closing = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    def notify(self, topic: str) -> None:
        """From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, topic)

    def _wake(self, topic: str) -> None:
        for event in self._waiting.get(topic, ()):
            event.set()

    @property
    def topics(self) -> list[str]:
        """What somebody waits for. From any thread."""
        return list(self._waiting)

    @contextmanager
    def listening(self, topic: str) -> Iterator[asyncio.Event]:
        """An event that is set when the topic changes; clear it before looking, so that no change is missed."""
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[topic].discard(event)
            if not self._waiting[topic]:
                del self._waiting[topic]


_AWAY_TOLD_S = 10.0
_log = logging.getLogger("harness.server")
QUEUE = "queue"
"""The topic of whoever waits for work."""


@dataclass
class Services:
    """Of one server."""

    database: Database
    catalogue: Catalogue
    settings: Settings
    clock: Callable[[], float] = time.time
    rates: Rates = field(default_factory=Rates)
    hub: Hub = field(default_factory=Hub)
    leaderboards: Leaderboards = field(default_factory=Leaderboards)
    queue: Queue = field(default_factory=Queue)

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.database, self.queue)
        self._away_told = -math.inf

    def waits_for(self, submission: Submission, agents: AgentsHere) -> WaitsFor | None:
        """As `AgentsHere.lacking`, now."""
        version = self.catalogue.versions.get(submission.problem_id)
        return agents.lacking(submission, version, self.clock() - self.settings.away_s)

    def store_is_away(self, error: StoreAway) -> None:
        """Say so in the log, once in a while, however many requests find that out."""
        if time.monotonic() - self._away_told > _AWAY_TOLD_S:
            self._away_told = time.monotonic()
            _log.error("the store can't be used: %s", error)
