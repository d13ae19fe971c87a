"""The stages of a grading as they go by: what is told meanwhile, and how long each took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from harness.events import EventSink, Progress, StageEnded, StageStarted
from harness.report import Stage


class Course:
    """What has been done so far, and what is being done."""

    def __init__(self, on_event: EventSink) -> None:
        self._on_event = on_event
        self._now = "load"
        self._seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Inside, this is the stage. Of several workloads one comes again; its times are added up."""
        self._now = name
        self._on_event(StageStarted(name))
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
            self._on_event(StageEnded(name, seconds))

    def tell(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Say what is being done."""
        self._on_event(Progress(self._now, what, done, total))

    @property
    def stages(self) -> list[Stage]:
        """Those that have ended, in the order in which each ended first."""
        return [Stage(name=name, seconds=round(seconds, 4)) for name, seconds in self._seconds.items()]

    @property
    def elapsed_s(self) -> float:
        """Seconds of all of them."""
        return sum(self._seconds.values())
