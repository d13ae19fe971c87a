"""How large a request may be, and how long its body may take to arrive; for its headers see `protocol.py`.

What has arrived of a body is held in memory, so nobody without a key can send much, and there is room for only so much
of all keys, and of each, at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.problems_json import ApiError, answer_to, no_store
from server.keys import Caller
from server.settings import Settings
from server.store import StoreAway

MAX_HEADER_BYTES = 32 << 10
_WITHOUT_KEY = 64 << 10
"""What is read of a body before anybody asks whose it is."""
_AGAIN_S = 2


class BodyLimits:
    """Takes a request's body before anybody else does, as long as it is not too large (413) or too slow (408).

    `sender` says whose key came with a request. Headers that are too large are refused as well (431): uvicorn only
    refuses those that don't come at once.
    """

    def __init__(self, app: ASGIApp, settings: Settings, sender: Callable[[Scope], Awaitable[Caller | None]]) -> None:
        self.app, self.settings, self.sender = app, settings, sender
        self._held: Counter[str] = Counter()
        """Bytes of large bodies, by key."""

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
        body = _Body(scope, receive, self)
        try:
            error = await self._read(body)
            if error is None:
                await self.app(scope, body.replay, send)
            else:
                headers = {**error.headers, "connection": "close"}
                await answer_to(scope, error.status, error.code, error.detail, headers)(scope, receive, send)
        finally:
            body.let_go()

    async def _read(self, body: _Body) -> ApiError | None:
        """Why it is not taken; None: all of it is here."""
        try:
            async with asyncio.timeout(self.settings.body_s):
                await body.read()
        except TimeoutError:
            detail = f"The request's body did not arrive within {self.settings.body_s:g} s."
            return ApiError(408, "body-too-slow", detail)
        except StoreAway:
            return no_store()
        except ApiError as error:
            return error
        return None

    def reserve(self, caller: Caller, size: int) -> None:
        """Room for a body that large. Raises ApiError."""
        settings = self.settings
        again = {"Retry-After": str(_AGAIN_S)}
        if self._held[caller.key_id] + size > settings.bodies_bytes // 4:
            detail = f"This key sends too much at once; send large bodies one after the other, again in {_AGAIN_S} s."
            raise ApiError(429, "too-many-bodies", detail, again)
        if self._held.total() + size > settings.bodies_bytes:
            detail = f"Too many large bodies arrive at once; come again in {_AGAIN_S} s."
            raise ApiError(503, "too-many-bodies", detail, again)
        self._held[caller.key_id] += size

    def release(self, caller: Caller, size: int) -> None:
        """What `reserve` gave."""
        self._held[caller.key_id] -= size
        if not self._held[caller.key_id]:
            del self._held[caller.key_id]


class _Body:
    """Of one request."""

    def __init__(self, scope: Scope, receive: Receive, limits: BodyLimits) -> None:
        self._scope, self._receive, self._limits = scope, receive, limits
        self._whole, self._told = b"", False
        self._room: tuple[Caller, int] | None = None

    async def read(self) -> None:
        """All of it; less when the client goes away. Raises ApiError for one that is not to be read."""
        declared = dict(self._scope["headers"]).get(b"content-length", b"")
        size = int(declared[:20]) if declared.isdigit() else None
        await self._check(0, size)
        pieces: list[bytes] = []
        taken, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                break
            pieces.append(message.get("body", b""))
            taken, more = taken + len(pieces[-1]), message.get("more_body", False)
            await self._check(taken, size)
        self._whole = b"".join(pieces)

    async def _check(self, taken: int, declared: int | None) -> None:
        settings = self._limits.settings
        of_agent = self._scope["path"].startswith("/v1/agent/")
        limit = settings.max_report_bytes if of_agent else settings.max_body_bytes
        if max(taken, declared or 0) > limit:
            raise ApiError(413, "body-too-large", f"The request's body is larger than the limit of {limit} bytes.")
        if max(taken, declared or 0) > _WITHOUT_KEY and self._room is None:
            await self._make_room(limit if declared is None else declared, of_agent)

    async def _make_room(self, size: int, of_agent: bool) -> None:
        caller = await self._limits.sender(self._scope)
        if caller is None or (of_agent and caller.role == "solver"):
            detail = f"A body of more than {_WITHOUT_KEY} bytes is read only with a key that may send it here."
            raise ApiError(401, "no-key", detail, {"WWW-Authenticate": "Bearer"})
        self._limits.reserve(caller, size)
        self._room = (caller, size)

    async def replay(self) -> Message:
        """The body as one message, and then what follows it."""
        if self._told:
            return await self._receive()  # the client's going away
        self._told = True
        return {"type": "http.request", "body": self._whole, "more_body": False}

    def let_go(self) -> None:
        """The request is over."""
        if self._room is not None:
            self._limits.release(*self._room)
