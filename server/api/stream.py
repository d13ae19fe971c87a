"""A submission's events as a stream that can be taken up again where it broke off.

Streams are the only requests that last, so there is room for only so many of them: of each key, and of all keys
together fewer than the server takes connections; and none lasts for ever. Who finds no room is told when to come again;
whose stream was ended goes on after the last event that came.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from server.api.problems_json import ApiError, answer_to
from server.keys import Caller
from server.services import Services
from server.settings import Settings
from server.store import Event, StoreAway, Submission
from server.store.models import ENDED, State

_KEEP_ALIVE_S = 15.0
"""After so long without news a comment is sent, so that nobody in between takes the connection for dead."""
_PAGE = 500
_AGAIN_S = 15
"""After so long a stream for which there was no room may come again."""
_CROWDED, _FEW = 0.8, 5
"""Once this share of all streams is open, a key that has so many gets no more."""
GO_ON = b": go on\n\n"
"""The end of a stream that has lasted long enough, for clients that want to tell it from a broken connection."""


class Streams:
    """Those that are open, by their keys. To be used on the event loop."""

    def __init__(self) -> None:
        self._of_key: Counter[str] = Counter()

    def total(self) -> int:
        """How many there are."""
        return self._of_key.total()

    @contextmanager
    def one(self, caller: Caller, settings: Settings) -> Iterator[None]:
        """Room for one more of the caller's, for as long as the block lasts. Raises ApiError."""
        self._check(caller, settings)
        self._of_key[caller.key_id] += 1
        try:
            yield
        finally:
            self._of_key[caller.key_id] -= 1
            if not self._of_key[caller.key_id]:
                del self._of_key[caller.key_id]

    def _check(self, caller: Caller, settings: Settings) -> None:
        of_key, of_all = self._of_key[caller.key_id], self.total()
        later = {"Retry-After": str(_AGAIN_S)}
        again = f"Close one, or come again in {_AGAIN_S} s; GET /v1/submissions/ID tells the state without a stream."
        if of_key >= settings.streams_per_key:
            detail = f"This key has open all {of_key} streams that it may. {again}"
            raise ApiError(429, "too-many-streams", detail, later)
        if of_all >= settings.streams or (of_all >= _CROWDED * settings.streams and of_key >= _FEW):
            detail = f"There are {of_all} streams open here, and {of_key} of them are this key's. {again}"
            raise ApiError(429, "too-many-streams", detail, later)


class EventStream(StreamingResponse):
    """An answer that is a stream, if there is room for one, and 429 otherwise."""

    def __init__(self, serving: Services, caller: Caller, streams: Streams, body: AsyncIterator[bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(body, media_type="text/event-stream", headers=headers)
        self._serving, self._caller, self._streams = serving, caller, streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Here and not before: what was begun here ends here, however it ends."""
        try:
            with self._streams.one(self._caller, self._serving.settings):
                await super().__call__(scope, receive, send)
        except ApiError as error:
            await answer_to(scope, error.status, error.code, error.detail, error.headers)(scope, receive, send)


async def stream(
    serving: Services, submission: Submission, after: int, ending: Callable[[], dict[str, Any]]
) -> AsyncIterator[bytes]:
    """Every event with a number above `after`, as it comes, until the submission has ended.

    `ending` gives what goes with the last event, whether or not the client has seen that event before: who takes up a
    stream that was over gets the end once more. A store that goes away ends the stream, and so does its age; the client
    takes it up again.
    """

    def look(after: int) -> tuple[list[Event], str]:
        with serving.database.read() as session:
            # The state first: if it says that all is over, then every event is there to be read.
            state = session.scalars(select(Submission.state).where(Submission.number == submission.number)).one()
            wanted = select(Event).where(Event.submission_number == submission.number, Event.number > after)
            return list(session.scalars(wanted.order_by(Event.number).limit(_PAGE))), state

    # Not all of those that began together, after a restart, are to end together.
    loop = asyncio.get_running_loop()
    until = loop.time() + serving.settings.stream_s * random.uniform(0.8, 1.0)
    yield b"retry: 2000\n\n"
    with contextlib.suppress(StoreAway), serving.hub.listening(submission.id) as changed:
        while not serving.hub.closing:
            changed.clear()
            events, state = await run_in_threadpool(look, after)
            for event in events:
                after = event.number
                if event.kind in ENDED:
                    break
                yield _line(event.number, event.kind, {"at": event.at, **json.loads(event.data)})
            if len(events) == _PAGE:
                continue
            if state in ENDED:
                last = await run_in_threadpool(ending)
                yield _line(after, State(state), last)
                return
            while not await _is_set(changed, min(_KEEP_ALIVE_S, until - loop.time())):
                if loop.time() >= until:
                    yield GO_ON
                    return
                yield b": still here\n\n"


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _line(number: int, kind: str, data: dict[str, Any]) -> bytes:
    # ASCII only: JSON then holds no line end of any kind, and no text can end the event early.
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode("ascii")
