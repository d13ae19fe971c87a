"""What a grading tells while it runs: one event for each thing worth a line on a terminal or in a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StageStarted:
    """A stage of the grading begins."""

    stage: str
    """load, build, check, time, audit or judge."""


@dataclass(frozen=True)
class StageEnded:
    """A stage of the grading is over."""

    stage: str
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Something moved within a stage."""

    stage: str
    message: str
    """What is being done, in a few words: `trial 2 of 5`, `compiling s6_scan`."""
    done: int | None = None
    total: int | None = None


Event = StageStarted | StageEnded | Progress
EventSink = Callable[[Event], None]


def ignore(_: Event) -> None:
    """An event sink for callers that don't care."""
