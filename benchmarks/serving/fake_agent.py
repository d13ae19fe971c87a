"""Agents whose gradings take no time: they claim, tell of two stages, and report.

    HARNESS_KEY=kh_... python -m benchmarks.serving.fake_agent --server URL --agents 4 [--hold SECONDS]

They speak through the same link as real agents, and like them go on until an answer says that they may stop.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import threading
import time
from typing import Any

from benchmarks.serving.reports import DEVICE_NAME, about, example
from benchmarks.serving.rig import ROOT
from harness.version import VERSION
from server.agent.link import Link, Refused, Unreachable
from server.catalogue import Catalogue

STAGES = ("build", "check")


def main() -> None:
    """Until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--hold", type=float, default=0.0, help="seconds that a grading takes")
    parser.add_argument("--name", default="fake")
    arguments = parser.parse_args()
    versions = Catalogue.load(ROOT / "problems").versions
    for number in range(arguments.agents):
        one = FakeAgent(arguments.server, os.environ["HARNESS_KEY"], f"{arguments.name}-{number}", versions)
        threading.Thread(target=one.run, args=(arguments.hold,), daemon=True).start()
    threading.Event().wait()


class FakeAgent:
    """One of them."""

    def __init__(self, server: str, key: str, name: str, versions: dict[str, str]) -> None:
        self._link = Link(server, key)
        self._report = example()
        self._hello = {
            "name": name,
            "device": "cuda:0",
            "kind": "cuda",
            "device_name": DEVICE_NAME,
            "version": VERSION,
            "sandbox": "bubblewrap",
            "problems": versions,
        }

    def run(self, hold_s: float) -> None:
        """For ever."""
        agent_id = self._insist("/hello", self._hello)["agent_id"]
        while True:
            try:
                work = self._link.post("/claim", {"agent_id": agent_id, "wait_s": 5.0}, wait_s=5.0)
            except (Unreachable, Refused):
                time.sleep(0.1)
                continue
            if work is not None:
                self._grade(work, hold_s)

    def _grade(self, work: dict[str, Any], hold_s: float) -> None:
        path, token = f"/attempts/{work['attempt_id']}", work["token"]
        events = [{"kind": "stage_started", "stage": stage} for stage in STAGES]
        try:
            self._insist(f"{path}/renew", {"first": 1, "events": events}, token)
            time.sleep(hold_s)
            report = about(self._report, work, random.uniform(50.0, 500.0))
            self._insist(f"{path}/report", json.dumps(report), token)
        except Refused:
            pass  # somebody else has it by now

    def _insist(self, path: str, body: Any, token: str = "") -> Any:
        return self._link.insist(path, body, token, give_up=lambda: False)


if __name__ == "__main__":
    main()
