"""`harness mcp`: the grader's tools for a model, over the Model Context Protocol."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.config import warn_if_exposed
from harness.cli.errors import guarded
from harness.cli.grading import Device, Sandbox
from harness.cli.signals import say
from harness.cli.streams import WrongUse
from harness.cli.text import one_line

if TYPE_CHECKING:
    from harness.client import AsyncClient

KEY = "HARNESS_MCP_KEY"
"""The environment variable with the key that clients over HTTP show."""
_SHORTEST_KEY = 16
"""Characters."""


@guarded
def mcp(
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="Submissions are read from below it, and from nowhere else.")
    ] = Path("."),
    problems: Annotated[
        list[Path] | None, typer.Option(metavar="DIR|FILE", help="Problems, read at the start; repeatable.")
    ] = None,
    device: Device = "auto",
    sandbox: Sandbox = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve over HTTP; default: over stdin and stdout.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="With submit and leaderboard, on this server of harness serve.")
    ] = None,
) -> int:
    """Serve the tools of a solver to a model: device_info, problem, compile, check, run, profile, sanitize, ..."""
    try:
        import mcp as _  # noqa: F401 - only whether it is there
    except ImportError:
        raise WrongUse("the MCP SDK is missing: pip install 'kernel-harness[mcp]' brings it.") from None
    from harness.mcp.bench import Bench
    from harness.mcp.server import make_server
    from harness.mcp.transport import CannotListen, serve_http, serve_stdio
    from harness.mcp.workspace import Workspace

    where = None if http is None else _host_and_port(http)
    workspace = Workspace(root, problems or [Path("problems")])
    for broken in workspace.broken:
        say(one_line(broken, 500))
    client = None if server is None else _client(server)
    made = make_server(workspace, Bench(device, sandbox), client)
    if where is None:
        serve_stdio(made)
        return 0
    try:
        serve_http(made, *where, os.environ.get(KEY) or None, lambda url: say(f"listening at {url}"))
    except CannotListen as error:
        raise WrongUse(str(error)) from None
    return 0


def _host_and_port(http: str) -> tuple[str, int]:
    from harness.mcp.transport import is_local

    host, _, port = http.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise WrongUse(f"--http {http}: write HOST:PORT, as in 127.0.0.1:8900; port 0 is any that is free.")
    key = os.environ.get(KEY, "")
    if key and len(key) < _SHORTEST_KEY:
        raise WrongUse(f"{KEY} is {len(key)} characters long, which can be guessed: it has at least {_SHORTEST_KEY}.")
    if not is_local(host) and not key:
        raise WrongUse(
            f"--http {http} can be reached from elsewhere: set {KEY} to a secret of at least {_SHORTEST_KEY} "
            "characters, which clients show."
        )
    return host, int(port)


def _client(server: str) -> AsyncClient:
    try:
        from harness.client import AsyncClient, ClientError
    except ImportError as error:
        raise WrongUse(f"{error.name} is missing: pip install 'kernel-harness[server]' brings it.") from None
    warn_if_exposed()
    try:
        return AsyncClient(server, None)
    except ClientError as error:
        raise WrongUse(str(error)) from None
