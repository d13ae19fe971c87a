"""A submission's stream of events, taken up where it broke off."""

from __future__ import annotations

import random

from harness.client import requests
from harness.client.answers import ENDS, EventReader, StreamEvent
from harness.client.errors import ClientError, TooMany, Unreachable
from harness.client.patience import Patience
from harness.client.requests import Request

_GO_ON = ": go on"
"""With this comment a server ends a stream that has lasted long enough."""
_NO_ROOM = "too-many-streams"


class Following:
    """How far one has come."""

    def __init__(self, submission_id: str, patience: Patience, last_event_id: str) -> None:
        self._submission_id, self._patience = submission_id, patience
        self._last, self._tried = last_event_id, 0
        self._reader = EventReader()
        self._to_go_on = self.ended = False

    def request(self) -> Request:
        """For what was not seen yet."""
        self._reader, self._to_go_on = EventReader(), False  # half an event is as none
        return requests.events(self._submission_id, self._last)

    def take(self, line: str) -> StreamEvent | None:
        """The next line, and the event that it completes."""
        event = self._reader.take(line)
        if line.startswith(":"):  # nothing has happened, and all is well
            self._tried, self._to_go_on = 0, line == _GO_ON
        if event is not None:
            self._last, self._tried = event.id or self._last, 0
            self.ended = event.kind in ENDS
        return event

    def pause_s(self, error: ClientError | None) -> float:
        """Before the next request; None: the server ended the stream, which it does when it stops, or when the stream
        has lasted long enough. Raises the error, or that there is no server, when patience is at its end."""
        if error is None and self._to_go_on:
            return random.uniform(0.0, self._patience.first_pause_s)
        if isinstance(error, TooMany) and error.code == _NO_ROOM:
            # Others are watched, and this one's turn comes: no try has failed.
            pause = self._patience.pause_s(self.request(), error, 1)
            if pause is None:
                raise error
            return pause * random.uniform(1.0, 1.5)
        if error is None:
            error = Unreachable("the server ended the stream before the submission has ended; it may be stopping.")
        self._tried += 1
        pause = self._patience.pause_s(self.request(), error, self._tried)
        if pause is None:
            raise error
        return pause
