"""How clients reach the tools: over stdin and stdout, or over HTTP with a key.

Without a key, which only an address of this machine's own may do, whoever can make a request to it can grade. A page in
a browser here could: it may name any host, also one whose address its owner sets to 127.0.0.1. So a request must then
name this machine as its host, and come from no page.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

PATH = "/mcp"
MAX_REQUEST = 4 << 20
"""Bytes of a request: a submission of 1 MiB in JSON's usual spellings."""
MAX_SESSIONS = 256
MAX_CONNECTIONS = 512
SESSION_IDLE_S = 1800.0

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
    config = uvicorn.Config(
        http_app(server, host, key), log_level="warning", lifespan="on", ws="none", limit_concurrency=MAX_CONNECTIONS
    )
    on_start(f"http://{_in_url(host)}:{listening.getsockname()[1]}{PATH}")
    uvicorn.Server(config).run(sockets=[listening])


def http_app(server: MCPServer[None], host: str, key: str | None) -> _App:
    """What answers requests that come in at `host`."""
    named = sorted(
        {f"{_in_url(name)}{port}" for name in ("127.0.0.1", "localhost", "::1", host) for port in ("", ":*")}
    )
    app: _App = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=MAX_REQUEST,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE_S,
        # Whoever shows the key may be behind a proxy that goes by another name, and is no page that was tricked in.
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=key is None, allowed_hosts=named, allowed_origins=[]
        ),
    )
    return app if key is None else _guarded(app, key)


def is_local(host: str) -> bool:
    """Whether only this machine can reach what listens there. A name other than localhost may mean any address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _guarded(app: _App, key: str) -> _App:
    """Lets in who has the key."""
    wanted = f"Bearer {key}".encode()

    async def guard(scope: _Scope, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(given, wanted):
            await app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"Show the key: Authorization: Bearer KEY.\n"})

    return guard
