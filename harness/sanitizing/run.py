"""One submission under compute-sanitizer, tool by tool.

    submission --build, with line info--> libraries
    for each tool: worker under compute-sanitizer -> import, construct, one call -> what it printed -> findings

The worker is an ordinary one, in the ordinary sandbox, answered by the ordinary builder. What is not ordinary: nothing
is compared or timed, tensors go in through the host's memory, and nothing of ours runs on the device after the call,
so that what is reported is the submission's.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness import sandbox as sandboxes
from harness.build.cache import BuildCache
from harness.build.outcome import BuildFailure, BuildLimits, BuildOutcome
from harness.build.plan import make_plan
from harness.build.request import ExtensionRequest
from harness.build.service import BuildService
from harness.build.toolchain import discover
from harness.check.oracle import Oracle
from harness.check.parameters import construct_both
from harness.events import EventSink, Progress, ignore
from harness.grading.builds import Builds
from harness.load.problem import Problem, Workload
from harness.load.submission import Submission
from harness.machine.device import Device, DeviceError, open_device
from harness.machine.locks import DeviceLock
from harness.report import SubmissionInfo
from harness.sandbox import Exit, Sandbox
from harness.sanitizing.findings import Sanitizing, ToolRun
from harness.sanitizing.gather import gather
from harness.sanitizing.parse import parse
from harness.sanitizing.places import Extension, Places
from harness.sanitizing.smallest import choose_workload
from harness.sanitizing.tool import TOOLS, Sanitizer, SanitizerFailed, Tool, find_sanitizer
from harness.seeds import Seeds
from harness.version import VERSION
from harness.workers.process import Terms, WorkerProcess
from harness.workers.worker import MAIN, Worker, WorkerFailure

_SLOWER = 100
"""A kernel under compute-sanitizer takes some ten to a hundred times as long; so much may a call."""
_CALL_MOST_S = 180.0
_LEAVE_S = 60.0
"""What racecheck has to say it may say when the process ends."""
_MEMORY_SHARE = 0.8
_LOG_MOST = 64 << 10
_REPORT_MOST = 32 << 20
"""Bytes of what a tool printed that are read."""


def sanitize(
    problem: Problem | str | Path,
    submission: Submission | str | Path,
    *,
    tools: Sequence[Tool] = TOOLS,
    workload: str | None = None,
    device: str = "cuda",
    seed: int | None = None,
    sandbox: str | Sandbox | None = None,
    wait: bool = True,
    on_event: EventSink = ignore,
) -> Sanitizing:
    """Run one call of a submission under compute-sanitizer, once for each of `tools`.

    `workload` is a small one of the problem's by default (see smallest.py). `seed` repeats the inputs.
    Raises SanitizerMissing and DeviceError where it can't be done here, SanitizerFailed where compute-sanitizer itself
    fails before anything of the submission has run, and for wrong use ProblemError, SubmissionError, SandboxError;
    without `wait` DeviceBusy.
    """
    began = time.monotonic()
    problem = problem if isinstance(problem, Problem) else Problem.load(problem)
    loaded = problem.submission(submission)
    chosen = open_device(device)
    if chosen.kind != "cuda":
        raise DeviceError(
            "compute-sanitizer looks at CUDA kernels, and a CPU runs none; give --device cuda on a machine with a GPU."
        )
    program = find_sanitizer()
    load, why = choose_workload(problem, workload, chosen.kind)
    job = _Job(
        problem, load, loaded, chosen, sandbox=sandboxes.chosen(sandbox), seed=seed, wait=wait, on_event=on_event,
    )  # fmt: skip
    runs = _runs(job, program, tools)
    return Sanitizing(
        harness_version=VERSION,
        created_at=datetime.now(UTC),
        problem=problem.id,
        workload=load.name,
        workload_why=why,
        submission=SubmissionInfo(
            path=None if loaded.path is None else str(loaded.path), name=loaded.name, sha256=loaded.sha256
        ),
        device=chosen.info,
        sanitizer=program.version,
        runs=runs,
        log=job.log,
        seconds=round(time.monotonic() - began, 3),
    )


def _runs(job: _Job, program: Sanitizer, tools: Sequence[Tool]) -> list[ToolRun]:
    """One tool after the other. Raises SanitizerFailed for the first alone: later ones start on a machine on which the
    submission has run, which may be why they don't, and what was found by then is kept."""
    runs: list[ToolRun] = []
    for tool in tools:
        try:
            runs.append(job.run(program, tool))
        except SanitizerFailed as error:
            if not runs:
                raise
            why = f"{error}; the submission has run under {runs[0].tool} before and may have left the machine so"
            runs.append(ToolRun(tool=tool, reported=0, ended=False, failure=why, seconds=0.0))
    return runs


@dataclass
class _Built:
    """What a run had built, to find a solver's lines by."""

    arch: tuple[str, ...]
    extensions: list[Extension] = field(default_factory=list)

    def note(self, claim: dict[str, Any], outcome: BuildOutcome) -> None:
        """Keep the plan of a build that worked."""
        if outcome.ok:
            with contextlib.suppress(ValidationError):
                plan = make_plan(ExtensionRequest.model_validate(claim), discover(), self.arch)
                self.extensions.append(Extension.of(plan, outcome))


class _Job:
    """One submission on one device, for one tool after the other."""

    def __init__(
        self,
        problem: Problem,
        workload: Workload,
        submission: Submission,
        device: Device,
        *,
        sandbox: Sandbox,
        seed: int | None,
        wait: bool,
        on_event: EventSink,
    ) -> None:
        self._problem, self._workload = problem, workload
        self._program = problem.program_of(submission)
        self._device, self._sandbox, self._on_event = device, sandbox, on_event
        self._seeds = Seeds(seed)
        self._seeds.draw()  # the same inputs for every tool
        self._lock = DeviceLock(device.uuid or device.kind, lambda: self._say("waiting for the device"), wait=wait)
        self._service = BuildService(
            sandbox, cache=BuildCache(), limits=BuildLimits(step_s=problem.spec.limits.build_s)
        )
        self._stage = "sanitize"
        self.log = ""

    def run(self, program: Sanitizer, tool: Tool) -> ToolRun:
        """Everything with one tool. Raises SanitizerFailed."""
        self._stage = tool
        self._say("starting")
        began = time.monotonic()
        built = _Built((self._device.arch,) if self._device.arch else ())
        report = os.memfd_create("sanitizer-report")
        try:
            failure, imported = self._call(program, tool, report, built)
            text = _read(report)
        finally:
            os.close(report)
        if not imported:
            said = " ".join(parse(text).notes)[-400:] or "nothing"
            raise SanitizerFailed(
                f"compute-sanitizer {program.version} ({program.path}) could not run a worker under {tool}: {failure}; "
                f"it printed: {said} (where the sandbox keeps it from something, --sandbox none does without: for a "
                "submission of your own)"
            )
        places = Places(self._program.filename, self._program.source, built.extensions)
        return gather(tool, text, places, seconds=time.monotonic() - began, failure=failure)

    def _call(self, program: Sanitizer, tool: Tool, report: int, built: _Built) -> tuple[str | None, bool]:
        """One call under the tool. What kept it from its end, and whether the worker had come up before."""
        limits = self._problem.spec.limits
        call_s = min(_CALL_MOST_S, _SLOWER * limits.call_s)
        outcomes: list[BuildOutcome] = []
        builds = Builds(
            self._service,
            outcomes,
            device=self._device.kind,
            arch=self._device.arch,
            cuda_on_cpu=False,
            limit_s=limits.build_s,
            aside=self._lock.paused,
            say=self._say,
            line_info=True,
        )

        def answer(claim: dict[str, Any]) -> BuildOutcome:
            outcome = builds.answer(claim)
            built.note(claim, outcome)
            return outcome

        terms = Terms(self._sandbox, self._device.place, None)
        worker = Worker(
            WorkerProcess(terms, memory_bytes=terms.memory_bytes(), wrapper=program.around(tool, report)),
            self._device,
            flush_bytes=0,
            patience_s=4 * call_s + limits.import_s + _LEAVE_S,
            on_build=answer,
            share_device=False,
        )
        up = False
        with worker:
            try:
                worker.wait_ready()
                up = True
                worker.import_program(self._program, limits.import_s)
                with self._lock.held():
                    self._say(f"workload {self._workload.name}")
                    worker.open_device()
                    self._call_once(worker, call_s)
                    ended = worker.leave(_LEAVE_S)
                return _broken_off(ended), up
            except WorkerFailure as failure:
                with contextlib.suppress(WorkerFailure):
                    worker.leave(_LEAVE_S)
                return _words(failure, outcomes), up
            finally:
                worker.close()
                self.log = worker.log[-_LOG_MOST:]

    def _call_once(self, worker: Worker, call_s: float) -> None:
        oracle = Oracle(self._problem, self._workload, worker.torch_device)
        seed = self._seeds.parameters()
        construct_both(worker, oracle, seed=seed, limit_s=call_s, model=MAIN)
        worker.put("input", tuple(oracle.inputs(self._seeds.of("inputs", 0))))
        worker.call("input", "output", seed=self._seeds.of("call", 0), limit_s=call_s, keep=False)

    def _say(self, what: str) -> None:
        self._on_event(Progress(self._stage, what))


def _broken_off(ended: Exit | None) -> str | None:
    """Why a tool did not end by itself after the call; only the submission's processes are there to keep it from it."""
    if ended is None:
        return f"after the call the submission's process and the tool around it did not end within {_LEAVE_S:g} s"
    if ended.limit is not None:
        return f"after the call the sandbox ended them at the limit of {ended.limit.value.replace('_', ' ')}"
    number = ended.signal or (ended.code - 128 if ended.code is not None and 128 < ended.code < 193 else None)
    return None if number is None else f"after the call signal {number} ended the submission's process or the tool"


def _words(failure: WorkerFailure, outcomes: list[BuildOutcome]) -> str:
    for outcome in outcomes:
        if isinstance(why := outcome.failure, BuildFailure):
            return f"{why.code}: {why.message}"
    return str(failure)


def _read(descriptor: int) -> str:
    size = min(os.fstat(descriptor).st_size, _REPORT_MOST)
    data = bytearray()
    while len(data) < size and (piece := os.pread(descriptor, size - len(data), len(data))):
        data += piece
    return data.decode("utf-8", errors="replace")
