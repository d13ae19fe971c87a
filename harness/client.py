"""A client of a harness server: hand in, watch, look at leaderboards.

from harness.client import Client
with Client("http://127.0.0.1:8000", key) as client:
    submission = client.submit("selective_scan", source, device="cuda")
    for event in client.watch(submission["id"]):
        print(event.kind, event.data)
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx


class ClientError(Exception):
    """The server can't be reached, or says no. The message is one plain sentence."""


@dataclass(frozen=True)
class StreamEvent:
    """One event of a submission's stream."""

    id: str
    kind: str
    """queued, claimed, stage_started, progress, stage_ended, requeued, done, cancelled."""
    data: dict[str, Any]


class Client:
    """Talks to one server with one key."""

    def __init__(self, server: str, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        try:
            self._http = httpx.Client(base_url=server, headers=headers, timeout=30.0)
        except (httpx.InvalidURL, ValueError) as error:
            raise ClientError(f"{server} is no address of a server: {error}.") from None
        self._server = server

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
        attempts: int = 4,
    ) -> dict[str, Any]:
        """Hand in a source. Repeated when the answer gets lost, which does not hand it in twice."""
        body = {
            "problem": problem,
            "source": source,
            "device": device,
            "workload": workload,
            "mode": mode,
            "label": label,
        }
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        for attempt in range(1, attempts + 1):
            try:
                return self._json("POST", "/v1/submissions", json=body, headers=headers)
            except httpx.TransportError as error:
                if attempt == attempts:
                    raise self._unreachable(error) from None
                time.sleep(0.5 * attempt)
        raise AssertionError("the last attempt returns or raises")

    def submission(self, submission_id: str) -> dict[str, Any]:
        """One submission, with its report when it is done."""
        return self._get(f"/v1/submissions/{_segment(submission_id)}")

    def cancel(self, submission_id: str) -> dict[str, Any]:
        """Cancel it."""
        try:
            return self._json("DELETE", f"/v1/submissions/{_segment(submission_id)}")
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def leaderboard(self, problem: str, device: str | None = None, workload: str | None = None) -> dict[str, Any]:
        """Who is fastest."""
        wanted = {"device": device, "workload": workload}
        params = {name: value for name, value in wanted.items() if value is not None}
        return self._get(f"/v1/leaderboard/{_segment(problem)}", params=params)

    def watch(self, submission_id: str, *, patience: int = 10) -> Iterator[StreamEvent]:
        """Its events from the first on, until it has ended; a connection that breaks off is taken up again."""
        last, failures = "", 0
        while True:
            try:
                for event in self._stream(submission_id, last):
                    last, failures = event.id, 0
                    yield event
                    if event.kind in ("done", "cancelled"):
                        return
            except httpx.TransportError as error:
                failures += 1
                if failures > patience:
                    raise self._unreachable(error) from None
            time.sleep(min(5.0, 0.5 * (failures + 1)))

    def _stream(self, submission_id: str, last: str) -> Iterator[StreamEvent]:
        headers = {"Last-Event-ID": last} if last else {}
        path = f"/v1/submissions/{_segment(submission_id)}/events"
        with self._http.stream("GET", path, headers=headers, timeout=httpx.Timeout(30.0)) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refused(answer)
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and "data" in fields:
                    yield StreamEvent(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
                    fields = {}

    def _get(self, path: str, **options: Any) -> dict[str, Any]:
        try:
            return self._json("GET", path, **options)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = self._http.request(method, path, **options)
        if answer.status_code >= 400:
            raise _refused(answer)
        found: dict[str, Any] = answer.json()
        return found

    def _unreachable(self, error: Exception) -> ClientError:
        return ClientError(f"the server at {self._server} can't be reached ({error}); check the address.")


def _refused(answer: httpx.Response) -> ClientError:
    try:
        return ClientError(f"the server says: {answer.json()['detail']}")
    except (ValueError, KeyError, TypeError):
        return ClientError(f"the server answers {answer.status_code}")


def _segment(text: str) -> str:
    """One part of a path, whatever is in it."""
    from urllib.parse import quote

    return quote(text, safe="")
