"""The client that waits."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from harness.client import answers, requests
from harness.client.answers import StreamEvent
from harness.client.connection import connection, unreachable
from harness.client.errors import ClientError
from harness.client.following import Following
from harness.client.patience import Patience
from harness.client.requests import Request


class Client:
    """Talks to one server with one key. Every method raises ClientError, of the class that says what is wrong.

    Without an address or a key: those that `harness config` shows. What the server refuses for the moment, and what no
    answer came to, is sent again as long as `patience` says; `on_pause` is told before.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        patience: Patience | None = None,
        on_pause: Callable[[float, ClientError], None] = lambda seconds, error: None,
    ) -> None:
        self._server, options = connection(server, key)
        self._http = httpx.Client(**options)
        self._patience, self._on_pause = patience or Patience(), on_pause

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(
        self,
        problem: str,
        source: str,
        *,
        device: str | None = None,
        workload: str | None = None,
        mode: str = "run",
        label: str = "",
        file_name: str = "",
        priority: int = 0,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Hand in a source. Repeated when the answer gets lost, which does not hand it in twice."""
        return self._object(
            requests.submit(
                problem,
                source,
                device=device,
                workload=workload,
                mode=mode,
                label=label,
                file_name=file_name,
                priority=priority,
                idempotency_key=idempotency_key,
            )
        )

    def submission(self, submission_id: str) -> dict[str, Any]:
        """One submission, with its report when it is done."""
        return self._object(requests.submission(submission_id))

    def submissions(
        self, *, problem: str | None = None, state: str | None = None, verdict: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Your own, newest first, without reports; asked for page by page."""
        cursor = None
        while True:
            filters = {"problem": problem, "state": state, "verdict": verdict}
            page = self._object(requests.submissions(filters, cursor))
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def source(self, submission_id: str) -> str:
        """The text as it was handed in."""
        return self._text(requests.submission(submission_id, "source"))

    def log(self, submission_id: str) -> str:
        """What it printed."""
        return self._text(requests.submission(submission_id, "log"))

    def cancel(self, submission_id: str) -> dict[str, Any]:
        """Cancel it."""
        return self._object(requests.cancel(submission_id))

    def regrade(self, submission_id: str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """Have it graded again, as a new submission."""
        return self._object(requests.regrade(submission_id, idempotency_key))

    def watch(self, submission_id: str, *, last_event_id: str = "") -> Iterator[StreamEvent]:
        """Its events, from the first or after `last_event_id` on, until it has ended; a connection that breaks off is
        taken up again."""
        following = Following(submission_id, self._patience, last_event_id)
        while True:
            error: ClientError | None = None
            try:
                with self._http.stream(**following.request().options()) as answer:
                    if answer.status_code != 200:
                        answer.read()
                        answers.check(answer.status_code, answer.headers, answer.text)
                    for line in answer.iter_lines():
                        event = following.take(line)
                        if event is not None:
                            yield event
                        if following.ended:
                            return
            except httpx.RequestError as broken:
                error = unreachable(self._server, broken)
            except ClientError as refused:
                error = refused
            self._pause(following.pause_s(error), error)

    def wait(self, submission_id: str) -> dict[str, Any]:
        """The submission, once it is done or cancelled."""
        *_, last = self.watch(submission_id)
        return last.data

    def problems(self) -> list[dict[str, Any]]:
        """What there is to solve."""
        return self._list(requests.problems())

    def problem(self, problem: str) -> dict[str, Any]:
        """One problem: statement, reference, workloads, limits."""
        return self._object(requests.problems(problem))

    def devices(self) -> list[dict[str, Any]]:
        """What there is to grade on."""
        return self._list(requests.devices())

    def leaderboard(self, problem: str, device: str | None = None, workload: str | None = None) -> dict[str, Any]:
        """Who is fastest."""
        return self._object(requests.leaderboard(problem, device, workload))

    def _object(self, request: Request) -> dict[str, Any]:
        return answers.an_object(self._json(request))

    def _list(self, request: Request) -> list[dict[str, Any]]:
        return answers.a_list(self._json(request))

    def _json(self, request: Request) -> Any:
        return answers.read_json(self._text(request))

    def _text(self, request: Request) -> str:
        for tried in itertools.count(1):
            try:
                answer = self._http.request(**request.options())
                answers.check(answer.status_code, answer.headers, answer.text)
                return answer.text
            except httpx.RequestError as broken:
                error: ClientError = unreachable(self._server, broken)
            except ClientError as refused:
                error = refused
            pause = self._patience.pause_s(request, error, tried)
            if pause is None:
                raise error
            self._pause(pause, error)
        raise AssertionError("patience ends")

    def _pause(self, seconds: float, error: ClientError | None) -> None:
        if error is not None:
            self._on_pause(seconds, error)
        time.sleep(seconds)
