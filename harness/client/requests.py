"""What is asked of a server, without asking it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from harness.client.errors import ClientError


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def repeatable(self) -> bool:
        """Whether it does no harm to send it again when it may have arrived: what has a key the server does once."""
        return self.method != "POST" or "Idempotency-Key" in self.headers

    def options(self) -> dict[str, Any]:
        """As httpx takes it."""
        sent: dict[str, Any] = {"method": self.method, "url": self.path, "headers": dict(self.headers)}
        if self.params:
            sent["params"] = dict(self.params)
        if self.body is not None:
            sent["json"] = self.body
        return sent


def submit(
    problem: str,
    source: str,
    *,
    device: str | None,
    workload: str | None,
    mode: str,
    label: str,
    file_name: str,
    priority: int,
    idempotency_key: str | None,
) -> Request:
    """Hand in a source."""
    body = {
        "problem": problem,
        "source": source,
        "device": device,
        "workload": workload,
        "mode": mode,
        "label": label,
        "file_name": file_name,
        "priority": priority,
    }
    return Request("POST", "/v1/submissions", body=body, headers=_once(idempotency_key))


def submission(submission_id: str, what: str = "") -> Request:
    """One submission, or its `source` or `log`."""
    return Request("GET", f"{_submission(submission_id)}{what and '/'}{what}")


def submissions(filters: Mapping[str, str | None], cursor: str | None) -> Request:
    """A page of them."""
    return Request("GET", "/v1/submissions", params=_given({**filters, "cursor": cursor}))


def cancel(submission_id: str) -> Request:
    """Cancel it."""
    return Request("DELETE", _submission(submission_id))


def regrade(submission_id: str, idempotency_key: str | None) -> Request:
    """Grade it again."""
    return Request("POST", f"{_submission(submission_id)}/regrade", headers=_once(idempotency_key))


def events(submission_id: str, last_event_id: str) -> Request:
    """Its stream, from after that event on."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_event_id} if last_event_id else {})
    return Request("GET", f"{_submission(submission_id)}/events", headers=headers)


def problems(problem: str | None = None) -> Request:
    """All problems, or one."""
    return Request("GET", "/v1/problems" if problem is None else f"/v1/problems/{_segment(problem)}")


def devices() -> Request:
    """The devices."""
    return Request("GET", "/v1/devices")


def leaderboard(problem: str, device: str | None, workload: str | None) -> Request:
    """Who is fastest."""
    params = _given({"device": device, "workload": workload})
    return Request("GET", f"/v1/leaderboard/{_segment(problem)}", params=params)


def _submission(submission_id: str) -> str:
    return f"/v1/submissions/{_segment(submission_id)}"


def _once(idempotency_key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}


def _given(params: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in params.items() if value is not None}


def _segment(text: str) -> str:
    """One part of a path, whatever is in it."""
    if text in ("", ".", ".."):
        raise ClientError(f"{text!r} is no name that a server knows.")
    return quote(text, safe="")
