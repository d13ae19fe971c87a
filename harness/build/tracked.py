"""Compilers that can all be ended at once: a build runs them in threads, which Ctrl-C does not reach."""

from __future__ import annotations

import threading

from harness.sandbox.base import Command, Limits, Sandbox, Sandboxed, SandboxError


class TrackedSandbox(Sandbox):
    """Another sandbox that remembers what it has started."""

    def __init__(self, inner: Sandbox) -> None:
        self.name = inner.name
        self._inner = inner
        self._lock = threading.Lock()
        self._running: list[Sandboxed] = []
        self._ended = False

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def start(self, command: Command, limits: Limits) -> Sandboxed:
        """As the other one. Raises SandboxError after `end`."""
        with self._lock:
            if self._ended:
                raise SandboxError("The build was interrupted.")
            running = self._inner.start(command, limits)
            self._running = [each for each in self._running if each.poll() is None] + [running]
            return running

    def end(self) -> None:
        """Kill what runs, and start nothing more."""
        with self._lock:
            self._ended = True
            for running in self._running:
                running.kill()
