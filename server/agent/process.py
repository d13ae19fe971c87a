"""The agent's end of a grading process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

_END_S = 15.0
"""How long it may take to end what it started."""


class GradingProcess:
    """One process, used for one grading."""

    def __init__(self, device: str, sandbox: str) -> None:
        # A session of its own: Ctrl-C on the agent's terminal is for the agent, which lets the grading finish.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "server.agent.grading", device, sandbox],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, work: Mapping[str, Any]) -> None:
        """Hand over what to grade."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died; its last message says so
            self._process.stdin.write(json.dumps(work) + "\n")
            self._process.stdin.flush()

    def messages(self, wait_s: float) -> list[dict[str, Any]]:
        """What it has said meanwhile; waits for the first. The last of all has `report` or `error`."""
        found = []
        try:
            found.append(self._messages.get(timeout=wait_s))
            while True:
                found.append(self._messages.get_nowait())
        except queue.Empty:
            return found

    def end(self) -> None:
        """Have it end, with all that it started."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._messages.put(json.loads(line))
        code = self._process.wait()
        self._messages.put({"error": f"the grading process ended without a report (exit code {code})"})
