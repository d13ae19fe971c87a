"""Gradings for a client: in processes of their own, one build and one grading at a time; giving up ends them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.batch.doing import WRONG_USE, graded
from harness.batch.job import Job, Options
from harness.batch.lane import Lane, LaneLost
from harness.load.problem import DeviceKind, Problem
from harness.load.submission import Submission, SubmissionError
from harness.mcp.workspace import NotUsable, Text
from harness.report import DeviceInfo, Report
from harness.sanitizing.tool import SanitizerFailed, SanitizerMissing

if TYPE_CHECKING:
    from harness.clock.peaks import Peaks
    from harness.grading.grader import Mode
    from harness.sanitizing.findings import Sanitizing
    from harness.sanitizing.tool import Tool

T = TypeVar("T")


@dataclass(frozen=True)
class DeviceFound:
    """What is graded on."""

    info: DeviceInfo
    peaks: Peaks | None
    """None where they were not measured yet."""


class Bench:
    """Does the work of one server."""

    def __init__(self, device: str, sandbox: str | None) -> None:
        """`device` and `sandbox` are as for `grade`."""
        self._device, self._sandbox = device, sandbox
        self._lanes = {"compile": Lane(), "grade": Lane()}
        self._turns = {name: asyncio.Lock() for name in self._lanes}
        self._kind: DeviceKind | None = None

    async def device(self) -> DeviceFound:
        """Raises NotUsable where there is none."""
        return await self._do("compile", _find, self._device)

    async def kind(self) -> DeviceKind:
        """Of the device; asked for once, so that looking at a problem waits for no build. Raises NotUsable."""
        if self._kind is None:
            self._kind = (await self.device()).info.kind
        return self._kind

    async def grade(
        self, problem: Problem, text: Text, mode: Mode, *, workload: str | None = None, budget_s: float | None = None
    ) -> Report:
        """Raises NotUsable for wrong use, which a submission's faults are not."""
        digest = hashlib.sha256(text.content).hexdigest()
        options = Options(mode, workload, budget_s, None, self._sandbox)
        job = Job(problem, text.content, digest, text.name, options)
        return await self._do("compile" if mode == "compile" else "grade", _grade, job, self._device)

    async def sanitize(
        self, problem: Problem, text: Text, tools: tuple[Tool, ...], workload: str | None = None
    ) -> Sanitizing:
        """Raises NotUsable where it can't be done, and for a text that is no submission."""
        return await self._do("grade", _sanitize, problem, text, tools, workload, self._device, self._sandbox)

    async def close(self) -> None:
        """End what runs."""
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))

    async def _do(self, where: str, function: Callable[..., T], *arguments: Any) -> T:
        async with self._turns[where]:
            try:
                return await self._lanes[where].call(function, *arguments)
            except (*WRONG_USE, SanitizerMissing) as error:
                raise NotUsable(str(error)) from None
            except SanitizerFailed as error:
                raise NotUsable(
                    f"compute-sanitizer itself failed, which is not the submission's fault: {error}"
                ) from None
            except LaneLost as error:
                raise NotUsable(f"The grader itself failed: {error}. Call the tool again.") from None


def _find(device: str) -> DeviceFound:
    """In the lane's process, where torch is."""
    from harness.clock.peaks import load
    from harness.machine.device import open_device

    found = open_device(device)
    return DeviceFound(found.info, load(found))


def _grade(job: Job, device: str) -> Report:
    from harness.machine.device import open_device

    arch = (open_device(device).arch or "9.0") if job.options.mode == "compile" else None
    return graded(job, device=device, arch=arch)


def _sanitize(
    problem: Problem, text: Text, tools: tuple[Tool, ...], workload: str | None, device: str, sandbox: str | None
) -> Sanitizing:
    from harness.sanitizing.run import sanitize

    try:
        submission = Submission.from_source(text.content.decode("utf-8-sig"), text.name, problem.calling)
    except UnicodeDecodeError as error:
        raise NotUsable(f"{text.name} is not UTF-8 (position {error.start}); save it as UTF-8.") from None
    except SubmissionError as error:
        raise NotUsable(error.message) from None
    return sanitize(problem, submission, tools=tools, workload=workload, device=device, sandbox=sandbox)
