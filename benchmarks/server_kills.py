"""The server, the agents or PostgreSQL end or hang at random moments under load; what was lost or doubled by that.

    python -m benchmarks.server_kills [--moments 50] [--store sqlite|postgresql|both] [--seed N]

Solvers hand in all the while, each request with an Idempotency-Key, and send it again until it is answered with 202,
now and then once more after that. Fake agents grade. What is ended with kill -9 is started again a moment later; what
is stopped goes on after its leases have run out, while other agents work. In the end every key has to have one
submission, always the same, and every submission one verdict out of one attempt. The seed is printed, and repeats what
happens to what and when, though not what the machine does meanwhile. Exit code 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import func, select

from benchmarks.serving.rig import ROOT, STORES, Rig, rig
from benchmarks.serving.traffic import Connections
from server.store import Attempt, Event, Result, Submission
from server.store.models import ENDED, AttemptState, State

PROBLEM = "selective_scan"
SOLVERS = 8
AGENTS = 4
LEASE_S = 3.0
_OF_ANY = ("server killed", "server hung", "agents killed", "agents hung")
_OF_POSTGRESQL = ("PostgreSQL killed", "connection killed")
_HOLD_S = 0.15
_PAUSE_S = 0.4
"""Of a solver between two submissions, on average."""
_AGAIN = 0.2
"""So often a request that was answered is sent once more."""
_REST_S = 180.0
"""In which all that was accepted has to have its verdict."""


def main() -> int:
    """One line for each store, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    wrong = []
    for store in STORES if arguments.store == "both" else [arguments.store]:
        print(f"{store}: {arguments.moments} moments, --seed {seed}", flush=True)
        with rig(store, users=SOLVERS, lease_s=LEASE_S) as made:
            kills = Kills(made, random.Random(f"{seed} {store}"))
            asyncio.run(kills.run(arguments.moments))
            wrong += kills.judge()
    for each in wrong:
        print(f"WRONG {each}")
    return 1 if wrong else 0


class Kills:
    """One run over one store."""

    def __init__(self, made: Rig, draw: random.Random) -> None:
        self.rig, self.draw = made, draw
        self.connections = Connections(made.server.port)
        self.source = Path(ROOT / "submissions" / "s6_cpu.py").read_text()
        self.over = False
        self._next: list[str] = []
        self.answers: dict[str, set[str]] = {}
        """The ids that each key was answered with."""
        self.happened: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        """How requests failed that were sent again."""
        self.refused: list[str] = []
        """Answers that no kill explains."""

    async def run(self, moments: int) -> None:
        """Load, kills, and time for the rest to be graded."""
        self.agents = self.rig.start_agents(AGENTS, hold_s=_HOLD_S)
        try:
            solving = [asyncio.create_task(self._solve(key)) for key in self.rig.users]
            for _ in range(moments):
                await asyncio.sleep(self.draw.uniform(0.2, 1.5))
                await asyncio.to_thread(self._happen)
            self.over = True
            await asyncio.gather(*solving)
            await asyncio.to_thread(self._wait_for_verdicts)
        finally:
            self.agents.kill()
            self.agents.wait()
            self.connections.close()

    async def _solve(self, key: str) -> None:
        draw = random.Random(self.draw.random())
        while not self.over:
            await asyncio.sleep(draw.expovariate(1 / _PAUSE_S))
            name = secrets.token_hex(8)
            body = {"problem": PROBLEM, "source": f"{self.source}\n# {name}\n", "device": "cuda"}
            await self._hand_in(key, name, body)
            if draw.random() < _AGAIN:
                await self._hand_in(key, name, body)

    async def _hand_in(self, key: str, name: str, body: dict[str, str]) -> None:
        """Until it is answered with 202: what was handed in stays so when the kills are over."""
        text, headers = json.dumps(body).encode(), f"Idempotency-Key: {name}\r\n"
        while True:
            try:
                async with asyncio.timeout(20):
                    status, answer = await self.connections.request("POST", "/v1/submissions", key, text, headers)
            except (OSError, EOFError, TimeoutError) as error:
                self.failed[type(error).__name__] += 1
            else:
                if status == 202:
                    self.answers.setdefault(f"{key} {name}", set()).add(json.loads(answer)["id"])
                    return
                self.failed[str(status)] += 1
                if status != 503:
                    self.refused.append(f"{status} {answer[:200]!r}")
            await asyncio.sleep(0.2)

    def _happen(self) -> None:
        """The next thing, and what mends it."""
        if not self._next:  # each as often as the others
            self._next = list(_OF_ANY if self.rig.postgres is None else _OF_ANY + _OF_POSTGRESQL)
            self.draw.shuffle(self._next)
        what, pause_s, which = self._next.pop(), self.draw.uniform(0.0, 0.5), self.draw.random()
        self.happened[what] += 1
        if what == "server killed":
            self.rig.server.kill()
            time.sleep(pause_s)
            self.rig.server.start_again()
        elif what == "server hung":
            with _stopped(self.rig.server.process.pid):
                time.sleep(LEASE_S + pause_s)
        elif what == "agents killed":
            self.agents.kill()
            self.agents.wait()
            time.sleep(pause_s)
            self.agents = self.rig.start_agents(AGENTS, hold_s=_HOLD_S)
        elif what == "agents hung":
            with _stopped(self.agents.pid):
                others = self.rig.start_agents(AGENTS, hold_s=_HOLD_S, name="others")
                time.sleep(LEASE_S + 2 + pause_s)
            time.sleep(1)  # in which those that hung say what nobody wants to know any more
            others.kill()
            others.wait()
        elif self.rig.postgres is not None and what == "PostgreSQL killed":
            self.rig.postgres.kill()
            time.sleep(pause_s)
            self.rig.postgres.start()
        elif self.rig.postgres is not None:
            self.rig.postgres.kill_one(which)

    def _wait_for_verdicts(self) -> None:
        until = time.monotonic() + _REST_S
        while time.monotonic() < until:
            with self.rig.database.read() as session:
                if not session.scalar(select(func.count()).where(Submission.state.not_in(ENDED))):
                    return
            time.sleep(0.5)

    def judge(self) -> list[str]:
        """What is wrong with what is in the store now."""
        wrong = [f"an answer that no kill explains: {one}" for one in self.refused[:5]]
        wrong += [f"{name}: answered with {sorted(ids)}" for name, ids in self.answers.items() if len(ids) != 1]
        accepted = {one for ids in self.answers.values() for one in ids}
        with self.rig.database.read() as session:
            submissions = {one.id: one for one in session.scalars(select(Submission))}
            late = session.scalar(select(func.count()).where(Attempt.late_report.is_not(None)))
            states = session.execute(select(Attempt.submission_number, Attempt.state)).all()
            ends = Counter(session.scalars(select(Event.submission_number).where(Event.kind.in_(ENDED))))
            results = Counter(session.scalars(select(Result.submission_number)))
        reported = Counter(number for number, state in states if state == AttemptState.REPORTED)
        active = Counter(number for number, state in states if state == AttemptState.ACTIVE)
        wrong += [f"{one}: answered with 202 and not in the store" for one in accepted - submissions.keys()]
        wrong += [f"{one}: in the store, and no key was answered with it" for one in submissions.keys() - accepted]
        for name, one in submissions.items():
            lost = one.reason_code == "judge.agents_lost"
            is_whole = (
                one.state == State.DONE
                and one.verdict == ("judge_error" if lost else "accepted")
                and reported[one.number] == (0 if lost else 1)
                and results[one.number] == (0 if lost else 1)
                and ends[one.number] == 1
                and active[one.number] == 0
            )
            if not is_whole:
                wrong.append(
                    f"{name}: {one.state}, {one.verdict}, {one.attempts} attempts, {reported[one.number]} of them "
                    f"reported, {active[one.number]} active, {ends[one.number]} ends, {results[one.number]} results"
                )
        tried = Counter(one.attempts for one in submissions.values())
        lost_by_all = sum(one.reason_code == "judge.agents_lost" for one in submissions.values())
        print(f"  {_told(self.happened)}")
        print(f"  {len(accepted)} submissions accepted; requests sent again after: {_told(self.failed) or 'none'}")
        print(
            f"  attempts needed: {_told(tried)}; late reports: {late}; lost thrice: {lost_by_all}; wrong: {len(wrong)}",
            flush=True,
        )
        return wrong


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _told(counts: Counter[str] | Counter[int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
