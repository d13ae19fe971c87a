"""A server as people start it, over a store of either kind; both can be killed and started again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from server import keys
from server.store import Database

ROOT = Path(__file__).resolve().parents[2]
STORES = ("sqlite", "postgresql")
_WITHOUT_LIMIT = 1_000_000


class RigError(Exception):
    """Something could not be started. The message says what."""


class Postgres:
    """A PostgreSQL with its own settings as they come, so what it has committed is on disk."""

    def __init__(self, folder: Path) -> None:
        # It refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder, self._data, self._log = folder, folder / "data", folder / "log"
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", str(self._data), "-U", "harness", "-A", "trust", "-E", "UTF8", "--locale=C")
        self.start()
        self._run("createdb", "-h", str(folder), "-U", "harness", "store")
        self.url = f"postgresql://harness@/store?host={folder}"

    def start(self) -> None:
        """Start it, after a crash as well."""
        options = f"-c listen_addresses= -k {self._folder}"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._log), "-o", options, "-w", "-t", "60", "start")

    def stop(self) -> None:
        """Stop it for good."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def main(self) -> psutil.Process:
        """Its first process."""
        return psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))

    def kill(self) -> None:
        """End all of its processes at once; it is down afterwards."""
        first = self.main()
        everybody = [first, *first.children(recursive=True)]
        for process in everybody:
            _kill(process)
        psutil.wait_procs(everybody, timeout=20)

    def kill_one(self, which: float) -> None:
        """End one connection's process: it then ends all others, too, and recovers by itself."""
        of_clients = [one for one in self.main().children() if "harness" in " ".join(one.cmdline())]
        if of_clients:
            _kill(of_clients[int(which * len(of_clients))])

    def _run(self, *command: str) -> None:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        # To a file: what it starts keeps a pipe open for as long as it runs.
        with open(self._folder / "said", "w") as said:
            ran = subprocess.run(command, user=self._user, cwd=self._folder, env=plain, stdout=said, stderr=said)
        if ran.returncode:
            log = self._log.read_text()[-2000:] if self._log.exists() else ""
            raise RigError(f"{command[0]}: {(self._folder / 'said').read_text()}{log}")


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _free_port() -> int:
    """Below those that outgoing connections get: one of these could have the port while the server is down."""
    for port in random.sample(range(12000, 30000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RigError("no port is free")


class Server:
    """`harness serve` without agents of its own."""

    def __init__(self, data: Path, database: str | None, *, lease_s: float = 60.0) -> None:
        self._command = [sys.executable, "-m", "harness", "serve", "--json", "--devices", "none"]
        self._command += ["--data", str(data), "--problems", str(ROOT / "problems"), "--lease", f"{lease_s:g}"]
        if database is not None:
            self._command += ["--database", database]
        self.port = _free_port()
        self.process = self._start()

    @property
    def url(self) -> str:
        """Where it listens, after each start the same."""
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> psutil.Popen:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
        process = psutil.Popen(
            [*self._command, "--port", str(self.port)], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
        )
        line = process.stdout.readline()
        if not line:
            raise RigError(f"harness serve ended with exit code {process.wait()}")
        self.port = int(json.loads(line)["url"].rpartition(":")[2])
        return process

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """After `kill`, at the same address."""
        self.process = self._start()

    def stop(self) -> None:
        """As an operator would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


class Rig:
    """A store, a server over it, and keys without limits."""

    def __init__(self, store: str, folder: Path, *, users: int, lease_s: float = 60.0) -> None:
        self.postgres: Postgres | None = None
        if store == "postgresql":
            (folder / "pg").mkdir()
            self.postgres = Postgres(folder / "pg")
        self._data = folder / "data"
        self._data.mkdir()
        url = None if self.postgres is None else self.postgres.url
        self.database = Database(url) if url else Database.file(self._data / "harness.db")
        self.database.migrate()
        now = time.time()
        with self.database.write() as session:
            self.users = [
                keys.create(
                    session, f"user{number}", "solver", now, requests_per_minute=10**9, max_queued=_WITHOUT_LIMIT
                )
                for number in range(users)
            ]
            self.agent_key = keys.create(session, "machine", "agent", now)
        self.server = Server(self._data, url, lease_s=lease_s)

    def start_agents(self, count: int, hold_s: float = 0.0, name: str = "fake") -> subprocess.Popen[bytes]:
        """Fake agents in a process of their own; for whoever asks to end."""
        command = [sys.executable, "-m", "benchmarks.serving.fake_agent", "--server", self.server.url]
        command += ["--agents", str(count), "--hold", str(hold_s), "--name", name]
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "HARNESS_KEY": self.agent_key})

    def close(self) -> None:
        """Stop everything."""
        self.server.stop()
        self.database.close()
        if self.postgres is not None:
            self.postgres.stop()


@contextmanager
def rig(store: str, *, users: int, lease_s: float = 60.0) -> Iterator[Rig]:
    """A fresh one in a folder of its own, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hb-"))  # short: a socket's path has a limit
    folder.chmod(0o755)
    try:
        made = Rig(store, folder, users=users, lease_s=lease_s)
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
