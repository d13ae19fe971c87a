"""A submission's events as a stream that can be taken up again where it broke off."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from server.services import Services
from server.store import Event, StoreAway, Submission
from server.store.models import ENDED, State

_KEEP_ALIVE_S = 15.0
"""After so long without news a comment is sent, so that nobody in between takes the connection for dead."""
_PAGE = 500


async def stream(
    serving: Services, submission: Submission, after: int, ending: Callable[[], dict[str, Any]]
) -> AsyncIterator[bytes]:
    """Every event with a number above `after`, as it comes, until the submission has ended.

    `ending` gives what goes with the last event, whether or not the client has seen that event before: who takes up a
    stream that was over gets the end once more. A store that goes away ends the stream; the client takes it up again.
    """

    def look(after: int) -> tuple[list[Event], str]:
        with serving.database.read() as session:
            # The state first: if it says that all is over, then every event is there to be read.
            state = session.scalars(select(Submission.state).where(Submission.number == submission.number)).one()
            wanted = select(Event).where(Event.submission_number == submission.number, Event.number > after)
            return list(session.scalars(wanted.order_by(Event.number).limit(_PAGE))), state

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
            while not await _is_set(changed, _KEEP_ALIVE_S):
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
