"""What the process of a lane keeps from one grading to the next: workers that are ready, and what it found out once.

A lane grades on one device, with one sandbox, for as long as it lives. `alone` says that no other lane takes turns with
it there: only then are contexts made ahead.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from harness.batch.doing import grade_job
from harness.batch.job import Job, Options
from harness.batch.lane import at_end
from harness.report import Report

if TYPE_CHECKING:
    from harness.workers.prepared import PreparedWorkers

_kept: dict[tuple[str, str | None], PreparedWorkers] = {}


def get_ready(options: Options, device: str, alone: bool) -> None:
    """Do what can be done before the first grading. Raises DeviceError and SandboxError."""
    import harness.grading.grader  # noqa: F401 - brings torch, which takes seconds
    from harness.build.toolchain import MissingCompiler, discover

    with contextlib.suppress(MissingCompiler):
        discover()
    _prepared(options, device, alone)


def grade_here(job: Job, device: str, alone: bool) -> Report:
    """Grade with what is ready, and get ready for the next."""
    return grade_job(job, device, _prepared(job.options, device, alone))


def _prepared(options: Options, device: str, alone: bool) -> PreparedWorkers:
    """This process's, made the first time."""
    from harness import sandbox as sandboxes
    from harness.machine.device import open_device
    from harness.workers.prepared import PreparedWorkers

    key = (device, options.sandbox)
    if key not in _kept:
        count = None if options.mode == "run" else 1
        _kept[key] = PreparedWorkers(
            open_device(device), sandboxes.chosen(options.sandbox), count=count, contexts=alone
        )
        at_end(_kept[key].close)
    return _kept[key]
