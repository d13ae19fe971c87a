"""How large a request may be, and how long its body may take to arrive; for its headers see `protocol.py`."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.problems_json import answer_to
from server.settings import Settings

MAX_HEADER_BYTES = 32 << 10


class BodyLimits:
    """Takes a request's body before anybody else does, as long as it is not too large (413) or too slow (408).

    Headers that are too large are refused as well (431): uvicorn only refuses those that don't come at once.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if (
            scope["type"] == "http"
            and sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES
        ):
            detail = f"The request's headers are larger than the limit of {MAX_HEADER_BYTES} bytes."
            await answer_to(scope, 431, "headers-too-large", detail, {"connection": "close"})(scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        of_agent = scope["path"].startswith("/v1/agent/")
        limit = self.settings.max_report_bytes if of_agent else self.settings.max_body_bytes
        closing = {"connection": "close"}
        try:
            async with asyncio.timeout(self.settings.body_s):
                body = await _read(scope, receive, limit)
        except TimeoutError:
            detail = f"The request's body did not arrive within {self.settings.body_s:g} s."
            await answer_to(scope, 408, "body-too-slow", detail, closing)(scope, receive, send)
            return
        if body is None:
            detail = f"The request's body is larger than the limit of {limit} bytes."
            await answer_to(scope, 413, "body-too-large", detail, closing)(scope, receive, send)
            return
        told = False

        async def replay() -> Message:
            nonlocal told
            if told:
                return await receive()  # the client's going away
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)


async def _read(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """The whole body; None when it is too large. Ends early when the client goes away."""
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        return None
    pieces: list[bytes] = []
    taken = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(pieces)
        pieces.append(message.get("body", b""))
        taken += len(pieces[-1])
        if taken > limit:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)
