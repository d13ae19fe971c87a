"""What a server's answers say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.client.errors import ClientError, Refused, kind_of

ENDS = ("done", "cancelled")
"""The kinds of event that are the last one of a stream."""
_STRANGE = "what answers there is no harness server; check the address."
_PREFIX = "urn:kernel-harness:"


@dataclass(frozen=True)
class StreamEvent:
    """One event of a submission's stream."""

    id: str
    kind: str
    """queued, claimed, stage_started, progress, stage_ended, requeued, done, cancelled."""
    data: dict[str, Any]


def read_json(text: str) -> Any:
    """The document in an answer. Raises ClientError for an answer that no harness server gives."""
    try:
        return json.loads(text)
    except ValueError:
        raise ClientError(_STRANGE) from None


def an_object(found: Any) -> dict[str, Any]:
    """The same, of an answer that has to be an object."""
    if not isinstance(found, dict):
        raise ClientError(_STRANGE)
    return found


def a_list(found: Any) -> list[dict[str, Any]]:
    """The same, of an answer that has to be a list of objects."""
    if not isinstance(found, list):
        raise ClientError(_STRANGE)
    return found


def no_agent(kind: str) -> str:
    """What a submission's `waits_for` means, in words."""
    device = "" if kind == "any" else f" for {kind}"
    return f"no agent{device} that has this problem is here now; it waits until one comes"


def check(status: int, headers: Mapping[str, str], text: str) -> None:
    """Raises Refused for an answer that is an error, ClientError for one that leads elsewhere."""
    if 200 <= status < 300:
        return
    if status < 400:
        raise ClientError(f"the server sends us elsewhere (to {headers.get('location', '?')}); use that address.")
    raise refused(status, headers, text)


def refused(status: int, headers: Mapping[str, str], text: str) -> Refused:
    """The error that an answer is."""
    code = detail = ""
    try:
        told = json.loads(text)
        code, detail = str(told.get("type", "")), str(told.get("detail", ""))
    except (ValueError, AttributeError):
        pass  # a proxy's answer, or of something that is no harness server
    code = code.removeprefix(_PREFIX) if code.startswith(_PREFIX) else ""
    return kind_of(status)(status, code, detail, _seconds(headers.get("retry-after")))


def _seconds(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None  # it may be a date as well, which no harness server sends
    return found if math.isfinite(found) and found >= 0 else None


class EventReader:
    """Events out of the lines of a stream."""

    def __init__(self) -> None:
        self._fields: dict[str, list[str]] = {}

    def take(self, line: str) -> StreamEvent | None:
        """The next line; the event that it completes, if any. Raises ClientError for what is no event of ours."""
        if line.startswith(":"):
            return None
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        try:
            data = json.loads("\n".join(fields["data"]))
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise ClientError("the server's stream of events can't be understood; is it of another version?")
        return StreamEvent(fields.get("id", [""])[-1], fields.get("event", [""])[-1], data)
