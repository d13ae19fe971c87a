"""A submission's events as a stream that can be taken up again where it broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from server.services import Services
from server.store import Event, Submission
from server.store.models import ENDED, State

_LOOK_S = 3.0
"""How often the store is looked at unasked: another process may have written to it."""
_KEEP_ALIVE = 5
"""After so many looks without news a comment is sent, so that nobody in between takes the connection for dead."""
_PAGE = 500


async def stream(
    serving: Services, submission: Submission, after: int, ending: Callable[[], dict[str, Any]]
) -> AsyncIterator[bytes]:
    """Every event with a number above `after`, as it comes, until the submission has ended.

    `ending` gives what goes with the last event, whether or not the client has seen that event before: who takes up a
    stream that was over gets the end once more.
    """

    def look(after: int) -> tuple[list[Event], str]:
        with serving.database.read() as session:
            # The state first: if it says that all is over, then every event is there to be read.
            state = session.scalars(select(Submission.state).where(Submission.number == submission.number)).one()
            wanted = select(Event).where(Event.submission_number == submission.number, Event.number > after)
            return list(session.scalars(wanted.order_by(Event.number).limit(_PAGE))), state

    yield b"retry: 2000\n\n"
    silent = 0
    with serving.hub.listening(submission.id) as changed:
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
            silent = 0 if events else silent + 1
            if silent and silent % _KEEP_ALIVE == 0:
                yield b": still here\n\n"
            try:
                async with asyncio.timeout(_LOOK_S):
                    await changed.wait()
            except TimeoutError:
                pass


def _line(number: int, kind: str, data: dict[str, Any]) -> bytes:
    # ASCII only: JSON then holds no line end of any kind, and no text can end the event early.
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode("ascii")
