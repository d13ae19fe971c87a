"""A submission's stream of events, taken up where it broke off."""

from __future__ import annotations

from harness.client import requests
from harness.client.answers import ENDS, EventReader, StreamEvent
from harness.client.errors import ClientError, Unreachable
from harness.client.patience import Patience
from harness.client.requests import Request


class Following:
    """How far one has come."""

    def __init__(self, submission_id: str, patience: Patience, last_event_id: str) -> None:
        self._submission_id, self._patience = submission_id, patience
        self._last, self._tried = last_event_id, 0
        self._reader = EventReader()
        self.ended = False

    def request(self) -> Request:
        """For what was not seen yet."""
        self._reader = EventReader()  # half an event is as none
        return requests.events(self._submission_id, self._last)

    def take(self, line: str) -> StreamEvent | None:
        """The next line, and the event that it completes."""
        event = self._reader.take(line)
        if event is not None:
            self._last, self._tried = event.id or self._last, 0
            self.ended = event.kind in ENDS
        return event

    def pause_s(self, error: ClientError | None) -> float:
        """Before the next request; None: the server ended the stream, which it does when it stops. Raises the error,
        or that there is no server, when patience is at its end."""
        if error is None:
            error = Unreachable("the server ended the stream before the submission has ended; it may be stopping.")
        self._tried += 1
        pause = self._patience.pause_s(self.request(), error, self._tried)
        if pause is None:
            raise error
        return pause
