"""What runs on the nodes of a cluster: gradings in an actor for each device, builds in tasks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from harness.batch.doing import WRONG_USE, build_job
from harness.batch.job import Job
from harness.batch.kept import grade_here
from harness.batch.lane import Lane, LaneLost
from harness.batch.ray.facts import Facts, facts_of
from harness.batch.ray.shelf import Artifact, keep, take
from harness.report import Report


class GradingSlot:
    """One device. The grading is in a process of its own: ending one does not end this.

    Answers are values and no exceptions: what Ray makes of those depends on its version.
    """

    def __init__(self, kind: str) -> None:
        # Ray shows an actor the one GPU that it got.
        self._device = "cpu" if kind == "cpu" else "cuda:0"
        self._lane = Lane()
        _undo_thread_limit()

    async def facts(self) -> Facts | str:
        """What is graded with here, or why nothing can be."""
        try:
            return await self._lane.call(facts_of, self._device)
        except (LaneLost, *WRONG_USE) as error:
            return str(error)

    async def grade(self, job: Job, *bundles: list[Artifact]) -> tuple[str, Report | str]:
        """("report", it), ("lost", why) or ("not_graded", why)."""
        try:
            await asyncio.to_thread(keep, [artifact for bundle in bundles for artifact in bundle])
            return "report", await self._lane.call(grade_here, job, self._device, True)
        except LaneLost as error:
            return "lost", str(error)
        except WRONG_USE as error:
            return "not_graded", str(error)

    async def close(self) -> None:
        """End what was started."""
        await self._lane.close()


def build(job: Job, arch: str | None) -> tuple[list[str], int, list[Artifact]]:
    """The keys of what was built, its size in bytes, and itself."""
    try:
        keys = build_job(job, arch)
    except WRONG_USE:
        return [], 0, []  # the grading will say so
    artifacts = take(keys)
    size = sum(len(artifact.library or b"") for artifact in artifacts)
    return [artifact.key for artifact in artifacts], size, artifacts


def _undo_thread_limit() -> None:
    """Ray gives its workers one OpenMP thread. A reference on a CPU would be timed with that one."""
    raylet = Path(f"/proc/{os.getppid()}/environ")
    if b"OMP_NUM_THREADS=" not in b"\0" + raylet.read_bytes():
        os.environ.pop("OMP_NUM_THREADS", None)


def remote(function_or_class: Any, **options: Any) -> Any:
    """As a remote one whose failures come to us: Ray tries nothing again by itself."""
    import ray

    return ray.remote(**options)(function_or_class)
