"""What a server bears: submissions, leaderboards, event streams, and whether its memory stays flat.

    python -m benchmarks.server_load [--store sqlite|postgresql|both] [--minutes 10] [--graded 100000] [--only NAME ...]

Starts `harness serve` over a fresh store, without agents of its own, and sends requests from this process. Latencies
are of an open loop: requests begin at a fixed rate and are timed from when they were due. CPU is in hundredths of one
core.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from sqlalchemy import func, select

from benchmarks.serving.filling import fill
from benchmarks.serving.rig import ROOT, STORES, Rig, rig
from benchmarks.serving.traffic import Answer, Connections, Latencies, closed_loop, open_loop
from server.catalogue import Catalogue
from server.store import Submission

PROBLEM = "selective_scan"
RATE = 150.0
"""Submissions a second that are to be accepted; latencies are taken at half of it."""
USERS = 1000
PARTS = ("streams", "accept", "latency", "leaderboard", "memory")
"""In the order in which they run: a leaderboard is asked for over the filled store, and the last part takes it, too."""


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each part but the last")
    parser.add_argument("--minutes", type=float, default=10.0, help="of load during which memory is watched")
    parser.add_argument("--graded", type=int, default=100_000, help="submissions in the store")
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.2f} before")
    for store in STORES if arguments.store == "both" else [arguments.store]:
        with rig(store, users=USERS) as made:
            asyncio.run(Load(store, made, arguments).run())


class Load:
    """All parts over one store."""

    def __init__(self, store: str, made: Rig, arguments: argparse.Namespace) -> None:
        self.store, self.rig, self.arguments = store, made, arguments
        self.connections = Connections(made.server.port)
        self.source = (ROOT / "submissions" / "s6_cpu.py").read_text()
        self.numbers = itertools.count()
        self.accepted = 0

    async def run(self) -> None:
        """Those that were asked for."""
        for part in PARTS:
            if part in self.arguments.only:
                await getattr(self, part)()
        self.connections.close()

    def say(self, what: str, figure: str, more: str = "") -> None:
        """One line of the table."""
        print(f"{self.store:<11}{what:<50}{figure:<28}{more}", flush=True)

    async def post(self, number: int) -> Answer:
        """One submission, of the next user."""
        body = {"problem": PROBLEM, "source": f"{self.source}\n# {next(self.numbers)}\n", "device": "cuda"}
        key = self.rig.users[number % len(self.rig.users)]
        return await self.connections.request("POST", "/v1/submissions", key, json.dumps(body).encode())

    async def board(self, _: int) -> Answer:
        """A leaderboard, as anybody may ask for it."""
        return await self.connections.request("GET", f"/v1/leaderboard/{PROBLEM}", self.rig.users[0])

    async def accept(self) -> None:
        """How many submissions a second are taken, and whether they are all in the store."""
        before = self.stored()
        cpu = Cpu(self.rig)
        done, failures = await closed_loop(self.post, 32, self.arguments.seconds, 202)
        kept = self.stored() - before
        self.say("accepted and durable, a second", f"{done / cpu.seconds():.0f}", cpu.told(done))
        self.complain(failures)
        if kept != done:
            self.complain([f"{done} answers of 202, and {kept} rows in the store"])

    def stored(self) -> int:
        """Submissions in the store, by a connection of our own."""
        with self.rig.database.read() as session:
            return session.scalar(select(func.count()).select_from(Submission)) or 0

    async def latency(self) -> None:
        """Of a POST, at half the rate that is to be reached, and at that rate."""
        for rate in (RATE / 2, RATE):
            cpu = Cpu(self.rig)
            found = await open_loop(self.post, rate, self.arguments.seconds, 202)
            self.latencies(f"POST at {rate:g}/s", found, cpu)

    async def leaderboard(self) -> None:
        """Over many graded submissions, alone and beside submissions that are accepted and graded."""
        versions = Catalogue.load(ROOT / "problems").versions
        fill(self.rig.database, PROBLEM, versions[PROBLEM], self.arguments.graded, self.source, time.time())
        cpu = Cpu(self.rig)
        found = await open_loop(self.board, 50.0, self.arguments.seconds, 200)
        self.latencies(f"leaderboard at 50/s, {self.arguments.graded} graded", found, cpu)
        with self.agents(2):
            cpu = Cpu(self.rig)
            found, posts = await asyncio.gather(
                open_loop(self.board, 20.0, self.arguments.seconds, 200),
                open_loop(self.post, 20.0, self.arguments.seconds, 202),
            )
        self.latencies("leaderboard at 20/s, 20/s handed in and graded", found, cpu)
        self.latencies("the POSTs beside it", posts, None)

    async def streams(self) -> None:
        """Many streams at once, and every event of each while its submission is graded."""
        made = [json.loads((await self.post(number))[1])["id"] for number in range(self.arguments.streams)]
        opened, delays, kinds = 0, [], []
        everybody = asyncio.Event()

        async def watch(number: int) -> None:
            nonlocal opened
            key = self.rig.users[number % len(self.rig.users)]
            seen = []
            async with self.connections.stream(f"/v1/submissions/{made[number]}/events", key) as events:
                async for kind, data in events:
                    if not seen:
                        opened += 1
                        if opened == len(made):
                            everybody.set()
                    elif kind != "done":
                        delays.append(time.time() - json.loads(data)["at"])
                    seen.append(kind)
                    if kind == "done":
                        break
            kinds.append(seen)

        cpu = Cpu(self.rig)
        watching = [asyncio.create_task(watch(number)) for number in range(len(made))]
        async with asyncio.timeout(120):
            await everybody.wait()
            self.say(f"{len(made)} streams", "all open", cpu.told(len(made)))
            cpu = Cpu(self.rig)
            await asyncio.sleep(10)
            self.say("the same, nothing happening for 10 s", "", cpu.told(0))
            cpu = Cpu(self.rig)
            with self.agents(4):
                await asyncio.gather(*watching)
        whole = sum(seen == ["queued", "claimed", "stage_started", "stage_started", "done"] for seen in kinds)
        delays.sort()
        late = 1e3 * delays[int(0.99 * len(delays))]
        self.say(f"streams that got every event: {whole} of {len(made)}", f"p99 {late:.0f} ms after it", cpu.told(0))

    async def memory(self) -> None:
        """Under all kinds of load."""
        seconds = 60 * self.arguments.minutes
        sizes: list[float] = []

        async def look() -> None:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await asyncio.sleep(min(30.0, seconds / 10))
                sizes.append(self.rig.server.process.memory_info().rss / 2**20)

        with self.agents(4):
            cpu = Cpu(self.rig)
            posts, boards, _ = await asyncio.gather(
                open_loop(self.post, 30.0, seconds, 202), open_loop(self.board, 10.0, seconds, 200), look()
            )
        self.latencies("POST at 30/s, graded, with leaderboards", posts, cpu)
        self.latencies("leaderboards beside it", boards, None)
        shown = " ".join(f"{size:.0f}" for size in sizes[:: max(1, len(sizes) // 10)])
        self.say(
            f"memory over {self.arguments.minutes:g} minutes",
            f"{sizes[-1] - sizes[len(sizes) // 5]:+.1f} MiB",
            f"since a fifth of that time; MiB: {shown}",
        )

    def latencies(self, what: str, found: Latencies, cpu: Cpu | None) -> None:
        """One line, and what failed."""
        more = "" if cpu is None else cpu.told(len(found.seconds))
        figure = f"p50 {found.ms(0.5):.1f}  p99 {found.ms(0.99):.1f} ms"
        self.say(what, figure, more)
        self.complain(found.failures)

    def complain(self, failures: list[str]) -> None:
        """Nothing fails unseen."""
        if failures:
            self.say(f"  FAILED: {len(failures)}", failures[0])

    @contextmanager
    def agents(self, count: int) -> Iterator[None]:
        """Some in a process of their own, for as long as the block lasts."""
        process = self.rig.start_agents(count)
        try:
            yield
        finally:
            process.kill()
            process.wait()


class Cpu:
    """What the server, its store and this client use from now on."""

    def __init__(self, made: Rig) -> None:
        self._rig, self._began = made, time.monotonic()
        self._before = self._now()

    def _now(self) -> tuple[float, float, float]:
        store = 0.0
        if self._rig.postgres is not None:
            first = self._rig.postgres.main()
            ended = first.cpu_times()
            store = ended.children_user + ended.children_system
            store += sum(map(_used, [first, *first.children(recursive=True)]))
        return _used(self._rig.server.process), store, _used(psutil.Process())

    def seconds(self) -> float:
        """Since then."""
        return time.monotonic() - self._began

    def told(self, requests: int) -> str:
        """The shares of one core, and the time of a request."""
        seconds = self.seconds()
        server, store, client = (now - then for now, then in zip(self._now(), self._before, strict=True))
        shares = f"CPU: server {100 * server / seconds:.0f} %"
        if self._rig.postgres is not None:
            shares += f", PostgreSQL {100 * store / seconds:.0f} %"
        shares += f", client {100 * client / seconds:.0f} %"
        return shares + (f"; server {1e3 * server / requests:.2f} ms a request" if requests else "")


def _used(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
