"""`harness serve`, `agent` and `keys`: run a server and its agents. What they run is the package `server`."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.config import warn_if_exposed
from harness.cli.errors import guarded
from harness.cli.signals import say
from harness.cli.streams import WrongUse, claimed_stdout
from harness.settings import look_up

if TYPE_CHECKING:
    from server.store import Database

keys = typer.Typer(help="Make, list and revoke the keys of a server.", no_args_is_help=True)

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", envvar="HARNESS_DATA", help="The server's folder; default: one of yours."),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database", metavar="URL", envvar="HARNESS_DATABASE", help="postgresql://...; default: SQLite in the folder."
    ),
]
Problems = Annotated[Path, typer.Option(metavar="DIR", help="The folder that holds the problem folders.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]


def need_server() -> None:
    """Raises WrongUse where its packages are not installed."""
    try:
        import alembic
        import fastapi
        import httpx
        import jinja2
        import prometheus_client
        import sqlalchemy
        import uvicorn
    except ImportError as error:
        raise WrongUse(f"{error.name} is missing: pip install 'kernel-harness[server]' brings it.") from None
    del alembic, fastapi, httpx, jinja2, prometheus_client, sqlalchemy, uvicorn


def _data(given: Path | None) -> Path:
    if given is not None:
        return given
    import platformdirs

    return Path(platformdirs.user_data_dir("kernel-harness", appauthor=False)) / "server"


@guarded
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on; beyond this machine only with keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, envvar="HARNESS_PORT", help="0: any that is free.")] = 8000,
    data: Data = None,
    database: DatabaseUrl = None,
    problems: Problems = Path("problems"),
    devices: Annotated[
        str, typer.Option(metavar="auto|none|NAME,...", help="Agents to start: for every device, or cpu, cuda:0, ...")
    ] = "auto",
    private_leaderboard: Annotated[
        bool, typer.Option("--private-leaderboard", help="Show leaderboards only to those with a key.")
    ] = False,
    lease: Annotated[
        float, typer.Option(metavar="SECONDS", min=3, max=3600, help="After so much silence an agent counts as dead.")
    ] = 60.0,
    streams_per_key: Annotated[
        int, typer.Option(metavar="N", min=1, max=500, help="Submissions that a key may watch at once.")
    ] = 100,
    as_json: Annotated[bool, typer.Option("--json", help='Print one line: {"url": ..., "key": ...}.')] = False,
) -> int:
    """Run a server with an agent for each device of this machine."""
    need_server()
    with claimed_stdout() as stdout:
        from server.serve import ServeError, Started, serve
        from server.settings import Settings

        def on_start(started: Started) -> None:
            if as_json:
                print(json.dumps({"url": started.url, "key": started.key}), file=stdout, flush=True)
            else:
                key = "" if started.key is None else f"\nkey {started.key}"
                print(f"{started.url}{key}", file=stdout, flush=True)

        try:
            return serve(
                data=_data(data),
                database_url=database,
                settings=Settings(
                    problems=problems.resolve(),
                    public_leaderboard=not private_leaderboard,
                    lease_s=lease,
                    streams_per_key=streams_per_key,
                ),
                host=host,
                port=port,
                devices=_devices(devices),
                on_start=on_start,
            )
        except ServeError as error:
            raise WrongUse(str(error)) from None


def _devices(given: str) -> list[str]:
    """One name for each agent: every GPU, or the CPU where there is none."""
    if given == "none":
        return []
    if given != "auto":
        return [name.strip() for name in given.split(",")]
    from harness.machine.device import list_devices

    names = [found.torch_name for found in list_devices()]
    return [name for name in names if name != "cpu"] or ["cpu"]


@guarded
def agent(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server to work for; default: harness config's.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="A key with the role agent; default: harness config's, which is better than here."),
    ] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda[:N]", help="What to grade on.")] = "auto",
    problems: Problems = Path("problems"),
    name: Annotated[str, typer.Option(help="How the server lists it; default: the machine's name.")] = "",
    sandbox: Annotated[
        str, typer.Option(metavar="bubblewrap|docker", help="How submissions are confined; default: the first usable.")
    ] = "",
    ends_with_stdin: Annotated[bool, typer.Option("--ends-with-stdin", hidden=True)] = False,
) -> int:
    """Grade what a server has, on one device of this machine."""
    need_server()
    from harness import sandbox as sandboxes
    from harness.machine.device import open_device
    from server.agent.link import Link
    from server.agent.loop import AgentLoop, Identity
    from server.catalogue import Catalogue

    confined = sandboxes.chosen(sandbox)
    if confined.name == "none":
        raise WrongUse(
            "an agent grades what strangers hand in, and nothing here would confine that; install bubblewrap, "
            "harness sandbox says what is missing."
        )
    warn_if_exposed()
    address, shown_key = look_up("server", server).value, look_up("key", key).value
    if address is None or shown_key is None:
        raise WrongUse("an agent needs a key with the role agent, in HARNESS_KEY or by harness config set key.")
    found = open_device(device)
    identity = Identity(
        name=(name or socket.gethostname())[:100],
        device=found.torch_name,
        kind=found.kind,
        device_name=found.info.name[:200],
        sandbox=confined.name,
    )
    loop = AgentLoop(Link(address, shown_key), identity, Catalogue.load(problems.resolve()))
    if ends_with_stdin:
        threading.Thread(target=_stop_at_the_end_of_stdin, args=(loop.stop_at_once,), daemon=True).start()
    return loop.run()


def _stop_at_the_end_of_stdin(stop: Callable[[], None]) -> None:
    """Whoever started this agent has gone: nobody would end it."""
    while os.read(0, 1024):
        pass
    stop()


@keys.command()
@guarded
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")],
    role: Annotated[str, typer.Option(metavar="solver|admin|agent")] = "solver",
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Default: the server's setting.")] = None,
    max_queued: Annotated[int | None, typer.Option(min=1, help="Default: the server's setting.")] = None,
    data: Data = None,
    database: DatabaseUrl = None,
) -> int:
    """Make a key and print it; it can't be shown again."""
    need_server()
    from server.keys import KeyError_, create

    store = _open(data, database)
    try:
        with store.write() as session:
            key = create(
                session, name, role, time.time(), requests_per_minute=requests_per_minute, max_queued=max_queued
            )
    except KeyError_ as error:
        raise WrongUse(str(error)) from None
    finally:
        store.close()
    print(key)
    return 0


@keys.command("list")
@guarded
def list_(data: Data = None, database: DatabaseUrl = None, as_json: AsJson = False) -> int:
    """List the keys by their ids."""
    need_server()
    from sqlalchemy import select

    from server.store import Key, User

    store = _open(data, database)
    with store.read() as session:
        rows = session.execute(select(Key, User.name).join(User, User.id == Key.user_id).order_by(Key.created_at)).all()
    store.close()
    found = [
        {"id": key.id, "user": user, "role": key.role, "label": key.label, "revoked": key.revoked_at is not None}
        for key, user in rows
    ]
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    for one in found:
        print(f"{one['id']}  {one['user']}  {one['role']}{'  revoked' if one['revoked'] else ''}")
    return 0


@keys.command()
@guarded
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As harness keys list shows it.")],
    data: Data = None,
    database: DatabaseUrl = None,
) -> int:
    """End a key."""
    need_server()
    from server.keys import KeyError_, revoke

    store = _open(data, database)
    try:
        with store.write() as session:
            revoke(session, key_id, time.time())
    except KeyError_ as error:
        raise WrongUse(str(error)) from None
    finally:
        store.close()
    say(f"the key {key_id} is revoked")
    return 0


def _open(data: Path | None, url: str | None) -> Database:
    from server.serve import ServeError, open_database

    os.umask(0o077)  # the store's files are nobody else's business
    try:
        return open_database(_data(data), url)
    except ServeError as error:
        raise WrongUse(str(error)) from None
