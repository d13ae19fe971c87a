"""How clients reach the tools: over stdin and stdout, or over HTTP with a key."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer

PATH = "/mcp"
MAX_REQUEST = 4 << 20
"""Bytes of a request: a submission of 1 MiB in JSON's usual spellings."""

_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Any, Any], Awaitable[None]]


class CannotListen(Exception):
    """The message is a sentence."""


def serve_stdio(server: MCPServer[None]) -> None:
    """Until the client closes stdin."""
    anyio.run(server.run_stdio_async)


def serve_http(server: MCPServer[None], host: str, port: int, key: str | None, on_start: Callable[[str], None]) -> None:
    """Until a signal. `on_start` gets the address. Raises CannotListen."""
    import uvicorn

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(found[4][:2], family=found[0])
    except OSError as error:
        raise CannotListen(f"{host}:{port} can't be listened on ({error.strerror or error}); name another.") from None
    app: _App = server.streamable_http_app(streamable_http_path=PATH, host=host, max_request_body_size=MAX_REQUEST)
    config = uvicorn.Config(_guarded(app, key), log_level="warning", lifespan="on")
    name = f"[{host}]" if ":" in host else host
    on_start(f"http://{name}:{listening.getsockname()[1]}{PATH}")
    uvicorn.Server(config).run(sockets=[listening])


def is_local(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _guarded(app: _App, key: str | None) -> _App:
    """Lets in who has the key."""
    if key is None:
        return app
    wanted = f"Bearer {key}".encode()

    async def guard(scope: _Scope, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(given, wanted):
            await app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"Show the key: Authorization: Bearer KEY.\n"})

    return guard
