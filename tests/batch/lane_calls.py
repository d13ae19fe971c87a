"""What the tests of lanes have called in their processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from batch_fakes import report

from harness.batch.job import Job
from harness.report import Report


def pid() -> int:
    return os.getpid()


def fail(message: str) -> None:
    raise ValueError(message)


class Awkward(Exception):
    """Can be sent, and not be read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_awkwardly() -> None:
    raise Awkward(1, 2)


def leave(code: int) -> None:
    os._exit(code)


def kill() -> None:
    os.kill(os.getpid(), 9)


def linger(folder: str) -> None:
    Path(folder, "begun").write_text(str(os.getpid()))
    try:
        time.sleep(1000)
    finally:
        Path(folder, "cleaned up").write_text("")


def quick_report(job: Job) -> Report:
    """In place of a grading."""
    return report(sha256=job.sha256, log="x" * 10_000)
