"""What an agent does all day: claim, grade, report. SIGTERM lets it finish what it has; the second one does not."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from harness.cli.signals import say
from harness.version import VERSION
from server.agent.link import Link, Refused, Unreachable
from server.agent.process import GradingProcess
from server.catalogue import Catalogue

_MAX_EVENTS = 5000
"""Of one grading; the rest is left out. The report says all that counts."""
_BATCH = 200
_TICK_S = 0.25
_DELIVER_S = 600.0


@dataclass(frozen=True)
class Identity:
    """What the server is told of this agent."""

    name: str
    device: str
    kind: str
    device_name: str
    sandbox: str


class AgentLoop:
    """One agent on one device."""

    def __init__(
        self, link: Link, identity: Identity, catalogue: Catalogue, *, wait_s: float = 5.0, limit_s: float = 3600.0
    ) -> None:
        self._link, self._identity, self._catalogue = link, identity, catalogue
        self._wait_s, self._limit_s = wait_s, limit_s
        self._signals = 0
        self._agent_id = 0
        self._refused = False

    def run(self) -> int:
        """Until it is told to stop. Returns an exit code."""
        with self._stopping():
            prepared = self._process()
            try:
                if not self._hello():
                    return 2 if not self._signals else 0
                while not self._signals and not self._refused:
                    work = self._claim()
                    if work is None:
                        continue
                    try:
                        self._grade(work, prepared)
                    finally:
                        prepared.end()
                    if not self._signals:
                        # Only now: importing torch beside a grading would disturb its times.
                        prepared = self._process()
                if not self._refused:
                    self._bye()
            finally:
                prepared.end()
                self._link.close()
        return 2 if self._refused else 0

    def stop_at_once(self) -> None:
        """As two signals do. From any thread."""
        self._signals += 2

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        def handle(_: int, __: FrameType | None) -> None:
            self._signals += 1
            if self._signals == 1:
                say("stopping when what is being graded is done; once more to stop now")

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _process(self) -> GradingProcess:
        return GradingProcess(self._identity.device, self._identity.sandbox)

    def _hello(self) -> bool:
        hello = {
            "name": self._identity.name,
            "device": self._identity.device,
            "kind": self._identity.kind,
            "device_name": self._identity.device_name,
            "sandbox": self._identity.sandbox,
            "version": VERSION,
            "problems": self._catalogue.versions,
        }
        try:
            welcome = self._link.insist("/hello", hello, give_up=lambda: self._signals > 0)
        except Refused as error:
            say(f"the server takes no agent with this key: {error}")
            return False
        except Unreachable:
            return False
        self._agent_id = welcome["agent_id"]
        if welcome["refused"] is not None:
            say(f"the server gives this agent no work: {welcome['refused']}")
            return False
        if welcome["other_problems"]:
            say(f"no work on {', '.join(welcome['other_problems'])}: missing here, or of another version than there")
        say(f"agent {self._identity.name} is ready on {self._identity.device} ({self._identity.device_name})")
        return True

    def _claim(self) -> dict[str, Any] | None:
        began = time.monotonic()
        try:
            wanted = {"agent_id": self._agent_id, "wait_s": self._wait_s}
            work: dict[str, Any] | None = self._link.post("/claim", wanted, wait_s=self._wait_s)
        except Unreachable as error:
            say(f"the server can't be reached ({error}); trying again")
            work = None
        except Refused as error:
            # The server has another store than before, or this key was revoked, or it was upgraded and we were not.
            say(f"the server gives no work: {error}")
            if not self._hello():
                self._refused = True
            work = None
        if work is None and time.monotonic() - began < 1.0 and not self._signals:
            time.sleep(1.0)  # it did not wait: it is stopping, or away
        return work

    def _grade(self, work: dict[str, Any], process: GradingProcess) -> None:
        """From the claim to the report, or to the end of the attempt."""
        say(f"grading {work['submission']} on {work['problem']}")
        report = _Reporter(self._link, work)
        process.start(
            {
                # The folder is looked up here: what the server sends never becomes a path.
                "problem": str(self._catalogue[work["problem"]].path),
                "source": work["source"],
                "name": work["name"],
                "workload": work["workload"],
                "mode": work["mode"],
                "device": self._identity.device,
                "sandbox": self._identity.sandbox,
            }
        )
        deadline = time.monotonic() + self._limit_s
        while True:
            for message in process.messages(_TICK_S):
                if "event" in message:
                    report.add(message["event"])
                elif "report" in message:
                    self._deliver(report, message["report"])
                    return
                elif "error" in message:
                    self._hand_back(report, message["error"])
                    return
            if not report.renew():
                say(f"{work['submission']} is not ours any more")
                return
            if time.monotonic() > deadline:
                self._hand_back(report, f"the grading took longer than {self._limit_s:g} s")
                return
            if self._signals > 1:
                self._hand_back(report, "the agent was told to stop at once")
                return

    def _deliver(self, report: _Reporter, document: str) -> None:
        report.flush()
        try:
            # By then the lease is long over, and somebody else has it.
            until = time.monotonic() + _DELIVER_S
            answer = self._link.insist(
                report.path("report"),
                document,
                report.token,
                give_up=lambda: self._at_once() or time.monotonic() > until,
            )
            say(f"reported{'' if answer['counted'] else ', too late to count'}")
        except Refused as error:
            self._hand_back(report, f"the server refused the report: {error}")
        except Unreachable as error:
            say(f"the report could not be handed in: {error}")

    def _hand_back(self, report: _Reporter, why: str) -> None:
        say(f"handed back: {why}")
        try:
            self._link.insist(report.path("give-up"), {"why": why[:2000]}, report.token, give_up=self._at_once)
        except (Refused, Unreachable) as error:
            say(f"the server does not know yet, its lease has to run out: {error}")

    def _at_once(self) -> bool:
        return self._signals > 1

    def _bye(self) -> None:
        try:
            self._link.post("/bye", {"agent_id": self._agent_id})
        except (Refused, Unreachable) as error:
            say(f"left without a word: {error}")


class _Reporter:
    """Tells the server what happens in one attempt, and keeps its lease."""

    def __init__(self, link: Link, work: dict[str, Any]) -> None:
        self._link = link
        self.token: str = work["token"]
        self._attempt, self._lease_s = work["attempt_id"], work["lease_s"]
        self._waiting: list[dict[str, Any]] = []
        self._told = self._counted = 0
        self._last = self._tried = time.monotonic()

    def path(self, what: str) -> str:
        """Of this attempt."""
        return f"/attempts/{self._attempt}/{what}"

    def add(self, event: dict[str, Any]) -> None:
        """To be told with the next renewal. Of progress that nobody has seen yet only the latest counts."""
        said = {
            "kind": event["kind"],
            "stage": event["stage"][:32],
            "message": (event.get("message") or "")[:500],
            "seconds": event.get("seconds"),
        }
        if said["kind"] == "progress" and self._waiting and self._waiting[-1]["kind"] == "progress":
            self._waiting[-1] = said
        elif self._counted < _MAX_EVENTS:
            self._counted += 1
            self._waiting.append(said)

    def renew(self) -> bool:
        """Say what is new, or just that we are there, when it is time; False when the attempt is over."""
        now = time.monotonic()
        due = bool(self._waiting) or now - self._last > self._lease_s / 4
        if not due or (self._tried > self._last and now - self._tried < 1.0):
            return True
        return self.flush()

    def flush(self) -> bool:
        """The same at once. A server that can't be reached is no reason to stop grading."""
        self._tried = time.monotonic()
        batch = self._waiting[:_BATCH]
        try:
            answer = self._link.post(self.path("renew"), {"first": self._told + 1, "events": batch}, self.token)
        except Unreachable:
            return True
        except Refused as error:
            say(f"the server does not know this attempt: {error}")
            return False
        self._told += len(batch)
        del self._waiting[: len(batch)]
        self._last = self._tried = time.monotonic()
        return bool(answer["standing"] == "active")
