"""What can build and grade jobs: one interface, whoever does the work and wherever.

A job is content, and so is what comes back: a report, and content keys of what was built. Nothing else is shared, so an
implementation is free to use other machines. It moves what stands behind a key to where the grading is; the build cache
is such a place when it is the same folder for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from harness.batch.job import Job
from harness.report import Report


class NotGraded(Exception):
    """There is no report, and doing it again would give none: the message says what is to be corrected."""


class Lost(NotGraded):
    """Whoever did it is gone: a process, or a machine. Doing it again may work."""


class Gone(Exception):
    """Nobody is left who could do anything: what is not done yet is for another day. The message is a sentence."""


class Executor(ABC):
    """Does jobs, as many at once as it has room for. Its methods are called from one event loop."""

    device: str
    """Which hardware the gradings run on. Figures of two names can't be compared, so it goes into keys."""
    kind: Literal["cuda", "cpu"]
    """What kind of hardware that is."""
    grade_slots: int
    """Gradings at once."""
    build_slots: int
    """Builds at once."""
    builds_disturb: bool
    """Whether a build would slow down what is timed meanwhile, as on a CPU: then they take turns."""

    @abstractmethod
    async def build(self, job: Job) -> tuple[str, ...]:
        """Have built what the submission builds when it is imported; the content keys of all that is there now.

        What the submission does wrong is no error: the grading will find it. Raises Lost and Gone. Cancelling ends
        the work.
        """

    @abstractmethod
    async def grade(self, job: Job, artifacts: tuple[str, ...]) -> Report:
        """Grade, with those artifacts at hand. Raises NotGraded, Lost and Gone. Cancelling ends the work."""

    @abstractmethod
    async def close(self) -> None:
        """End everything that was started, and wait until it has ended."""
