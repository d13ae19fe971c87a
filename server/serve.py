"""`harness serve`: a store, the web server, and an agent for each device, started and stopped together.

Stopping goes from the outside in: no new work is given out, agents finish and report what they have, then the server
ends. A second signal ends the agents at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa
import uvicorn

from harness.cli.signals import say
from server import keys
from server.api.limits import MAX_HEADER_BYTES
from server.app import make_app
from server.catalogue import Catalogue
from server.hold import Held, held
from server.log import NowAndThen
from server.protocol import ImpatientProtocol
from server.services import Services
from server.settings import Settings
from server.store import Database, StoreAway

_M_ARENA_MAX = -8
"""As malloc.h has it."""
_STORE_UP_S = 15.0
"""How long a PostgreSQL that does not answer is waited for at a start."""
_OTHER_FILES = 256
"""Descriptors for all that is no connection of a client: the store's, agents', code that is loaded."""
_OWN_LABEL, _AGENT_LABEL = "serve", "serve-agent"


class ServeError(Exception):
    """The server can't be started as asked. The message is one plain sentence."""


@dataclass(frozen=True)
class Started:
    """What whoever started it needs to know."""

    url: str
    key: str | None
    """None when it listens beyond this machine: keys are made by `harness keys create` there."""


def open_database(data: Path, url: str | None) -> Database:
    """The store, with its tables up to date."""
    if url is None:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database.file(data / "harness.db")
    else:
        try:
            database = Database(url)
        except (sa.exc.SQLAlchemyError, ValueError) as error:
            raise ServeError(f"the database can't be used: {error}") from None
    until = time.monotonic() + _STORE_UP_S
    while True:
        try:
            database.migrate()
            return database
        except StoreAway as error:
            # One that starts, or recovers from a crash, is back in a moment.
            if url is None or time.monotonic() > until:
                raise ServeError(f"the database can't be used: {error}") from None
            time.sleep(0.5)


def _within_descriptors(settings: Settings) -> Settings:
    """No more connections than this process may have files open, and fewer streams than connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = settings.connections if soft == resource.RLIM_INFINITY else min(settings.connections, soft - _OTHER_FILES)
    if most < _OTHER_FILES:
        raise ServeError(f"a server needs {2 * _OTHER_FILES} open files at least, and may have {soft}: see ulimit -n.")
    return replace(settings, connections=most, streams=min(settings.streams, most // 2))


def serve(
    *,
    data: Path,
    database_url: str | None,
    settings: Settings,
    host: str,
    port: int,
    devices: list[str],
    on_start: Callable[[Started], None],
) -> int:
    """Run until a signal comes. Raises ServeError, and ProblemError for a broken problem."""
    _few_arenas()
    settings = _within_descriptors(settings)
    catalogue = Catalogue.load(settings.problems)
    try:
        # Before anything is changed: a start that fails does no harm to a server that runs.
        with held(data) as name, _socket(host, port) as listening:
            database = open_database(data, database_url)
            try:
                _serve(Services(database, catalogue, settings), name, listening, host, devices, on_start)
            finally:
                database.close()
    except Held as error:
        raise ServeError(str(error)) from None
    return 0


def _serve(
    serving: Services,
    name: str,
    listening: socket.socket,
    host: str,
    devices: list[str],
    on_start: Callable[[Started], None],
) -> None:
    local = _is_loopback(host)
    with serving.database.read() as session:
        if not local and not keys.any_usable(session):
            raise ServeError(
                f"listening on {host} lets others in, and there are no keys yet: make one first, with "
                "harness keys create NAME."
            )
    own, for_agents = _own_keys(serving.database, name, make_own=local)
    shown, port = f"[{host}]" if ":" in host else host, listening.getsockname()[1]
    url = f"http://{shown}:{port}"
    reached = url if host not in ("0.0.0.0", "::") else f"http://127.0.0.1:{port}"
    asyncio.run(_run(serving, listening, reached, for_agents, devices, lambda: on_start(Started(url, own))))
    _forget_own_keys(serving.database, name)


def _few_arenas() -> None:
    """Have all threads share two heaps. glibc gives nearly each its own, and under load all of them grow."""
    with contextlib.suppress(AttributeError):  # other C libraries have no such thing
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _own_keys(database: Database, name: str, *, make_own: bool) -> tuple[str | None, str]:
    """Fresh ones at each start; those of an earlier start end. `name` is the data folder's: other servers on the same
    database have keys of their own."""
    now = time.time()
    _forget_own_keys(database, name)
    with database.write() as session:
        own = keys.create(session, "local", "admin", now, label=f"{_OWN_LABEL} {name}") if make_own else None
        return own, keys.create(session, "local", "agent", now, label=f"{_AGENT_LABEL} {name}")


def _forget_own_keys(database: Database, name: str) -> None:
    with database.write() as session:
        for label in (_OWN_LABEL, _AGENT_LABEL):
            # Without a name: of a version that gave none.
            for whole in (f"{label} {name}", label):
                keys.revoke_labelled(session, whole, time.time())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _socket(host: str, port: int) -> socket.socket:
    try:
        # With its protocol: asyncio sends what it has at once only over a socket that says it is TCP, and an answer of
        # head and body would else wait 40 ms for the client's acknowledgement in between.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(512)
    except OSError as error:
        advice = ""
        if error.errno == errno.EADDRINUSE:
            advice = " `--port 0` picks a free one, or stop the other."
        raise ServeError(f"{host}, port {port}, can't be listened on: {error.strerror or error}.{advice}") from None
    return found


class _Server(uvicorn.Server):
    """Leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run(
    serving: Services,
    listening: socket.socket,
    url: str,
    agent_key: str,
    devices: list[str],
    on_start: Callable[[], None],
) -> None:
    config = uvicorn.Config(
        make_app(serving),
        log_level="warning",
        access_log=False,
        server_header=False,
        http=ImpatientProtocol,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        limit_concurrency=serving.settings.connections,
    )
    # After the configuration, which sets this logger up. Whoever can connect can have it write a line.
    logging.getLogger("uvicorn.error").addFilter(NowAndThen())
    server = _Server(config)
    stop = asyncio.Event()
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        stop.set()
        if signals > 1:
            for agent in agents:
                if agent.poll() is None:
                    agent.terminate()

    agents: list[subprocess.Popen[bytes]] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.02)
        # What is there now stays. A collection that walks all of it holds every request up for a tenth of a second.
        gc.collect()
        gc.freeze()
        agents += [_start_agent(url, agent_key, device, serving.settings.problems) for device in devices]
        on_start()
        waiting = asyncio.create_task(stop.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if agents:
            say("stopping when what is being graded is done; once more to stop now")
    finally:
        serving.hub.close()
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()
        while any(agent.poll() is None for agent in agents):
            await asyncio.sleep(0.05)
        server.should_exit = True
        await running


def _start_agent(url: str, key: str, device: str, problems: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "harness", "agent", "--server", url, "--device", device]
    command += ["--problems", str(problems), "--ends-with-stdin"]
    # The key goes by the environment: every user of a machine can read arguments. A session of its own: Ctrl-C is
    # passed on by us, once.
    environment = {**os.environ, "HARNESS_KEY": key}
    # The pipe closes when this process ends, however it ends: no agent is left behind.
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=2, start_new_session=True)
