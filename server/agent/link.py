"""The agent's connection to the server: what is asked, how often, and what an answer means."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx


class Refused(Exception):
    """The server says no, and asking again would not help. The message is its sentence."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Unreachable(Exception):
    """No answer, or one that says to ask again later."""


class Link:
    """Requests with the agent's key."""

    def __init__(self, server: str, key: str, transport: httpx.BaseTransport | None = None) -> None:
        self._http = httpx.Client(
            base_url=server.rstrip("/") + "/v1/agent",
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(20.0, connect=5.0),
            transport=transport,
        )

    def post(self, path: str, body: Mapping[str, Any] | str, token: str = "", wait_s: float = 0.0) -> Any:
        """One request, once. Raises Refused and Unreachable."""
        content = body if isinstance(body, str) else None
        json = None if isinstance(body, str) else body
        headers = {"X-Attempt-Token": token} if token else {}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            answer = self._http.post(
                path, content=content, json=json, headers=headers, timeout=httpx.Timeout(20.0 + wait_s, connect=5.0)
            )
        except httpx.TransportError as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from None
        if answer.status_code >= 500 or answer.status_code in (408, 429):
            raise Unreachable(f"the server answers {answer.status_code}")
        if answer.status_code >= 400:
            raise Refused(answer.status_code, _detail(answer))
        return answer.json()

    def insist(self, path: str, body: Mapping[str, Any] | str, token: str = "", *, give_up: Callable[[], bool]) -> Any:
        """The same until there is an answer. Raises Refused; Unreachable only once `give_up` says so."""
        pause_s = 0.5
        while True:
            try:
                return self.post(path, body, token)
            except Unreachable:
                if give_up():
                    raise
                time.sleep(pause_s)
                pause_s = min(15.0, 2 * pause_s)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the server answers {answer.status_code}"
