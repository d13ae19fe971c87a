"""From evidence to verdict: one pure function, in the order in which reasons count.

Our own failures come first, then what kept the submission from running, then wrong results, then broken rules, then
figures that can't be believed. Nothing here looks at anything but its argument.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from harness.build.outcome import BuildOutcome
from harness.evidence import Evidence
from harness.report import LeafReport, Reason, Steadiness, Verdict
from harness.sandbox import Limit
from harness.workers import WorkerFailure


@dataclass(frozen=True)
class Judgement:
    """The verdict and its reason."""

    verdict: Verdict
    reason: Reason


def judge(evidence: Evidence) -> Judgement:
    """Decide."""
    judgement = _judge(evidence)
    ours = judgement.verdict in (Verdict.JUDGE_ERROR, Verdict.ACCEPTED)
    return judgement if ours or evidence.workload is None else _at_workload(judgement, evidence.workload)


def _judge(evidence: Evidence) -> Judgement:
    if evidence.internal is not None:
        return _say(
            Verdict.JUDGE_ERROR,
            "judge.internal_error",
            "The grader itself failed; this says nothing about the submission. Please report the traceback.",
            traceback=evidence.internal,
        )
    if evidence.invalid is not None:
        return _say(
            Verdict.INVALID_SUBMISSION, evidence.invalid.code, evidence.invalid.message, **evidence.invalid.evidence
        )
    if evidence.failure is not None:
        return _failed(evidence, evidence.failure)
    if evidence.mode == "compile":
        # Also one whose failure the submission caught, or that came in a constructor which has no device here.
        if refused := _refused(evidence):
            return _not_built(refused)
        return _say(Verdict.ACCEPTED, "grade.compiled", f"{_count(len(evidence.builds), 'extension')} built.")
    if evidence.form is not None:
        verdict = Verdict.REJECTED if evidence.form.code == "output.tensor_type" else Verdict.WRONG_ANSWER
        return _say(verdict, evidence.form.code, evidence.form.message, **evidence.form.evidence)
    return _outputs(evidence) or _rules(evidence) or _below_floor(evidence) or _accepted(evidence)


def _at_workload(judgement: Judgement, workload: str) -> Judgement:
    """Say that it happened at other sizes than those that are graded."""
    reason = judgement.reason
    message = f"{reason.message} This was at the further sizes that the problem checks, its workload {workload!r}."
    return Judgement(
        judgement.verdict, Reason(code=reason.code, message=message, evidence=reason.evidence | {"workload": workload})
    )


def _outputs(evidence: Evidence) -> Judgement | None:
    early, live = _first_bad(evidence.early), _first_bad(evidence.live)
    if early and evidence.live and not live:
        return _say(
            Verdict.REJECTED,
            "output.unfinished",
            f"{early.path} was not finished on the caller's stream when forward returned, and was right only later: "
            "join your streams to the current one (wait for an event), and your threads, before returning.",
            **_leaf_evidence(early),
        )
    if live and not early:
        return _say(
            Verdict.REJECTED,
            "output.overwritten",
            f"{live.path} was right when forward returned and changed afterwards: return memory that later calls "
            "don't write to, and leave no work running.",
            **_leaf_evidence(live),
        )
    if early:
        return _say(Verdict.WRONG_ANSWER, "output.values", _values_message(early), **_leaf_evidence(early))
    if timed := _first_bad(evidence.timed):
        return _say(
            Verdict.WRONG_ANSWER,
            "output.timed_values",
            "A timed call returned another result than the reference, after the untimed ones were right. "
            + _values_message(timed)
            + " Results must not be kept from call to call.",
            **_leaf_evidence(timed),
        )
    return None


def _rules(evidence: Evidence) -> Judgement | None:
    if mutated := _first_bad(evidence.mutated):
        return _say(
            Verdict.REJECTED,
            "input.mutated",
            f"forward changed its argument {mutated.path} ({mutated.outside} of {math.prod(mutated.shape)} elements): "
            "work on a copy.",
            **_leaf_evidence(mutated),
        )
    if evidence.unsteady is not None:
        # Before anything that is said of times: none of it can be held against the submission.
        return _unsteady(evidence.unsteady)
    timing = evidence.timing
    outside = None if timing is None else timing.outside
    if outside is not None and not outside.confirmed:
        return _say(
            Verdict.REJECTED,
            "time.not_confirmed",
            f"A call was said to take {outside.inside_us:.2f} us, and takes {outside.outside_us:.2f} us by the "
            f"grader's own clock over {outside.calls} calls; they may differ by {outside.tolerance_us:.2f} us. Do all "
            "work before forward returns, on the current stream, and leave clocks alone.",
            **outside.model_dump(mode="json"),
        )
    return None


def _below_floor(evidence: Evidence) -> Judgement | None:
    """A time that the device can't have reached, even at the upper end of its interval, is no time of the work."""
    timing = evidence.timing
    if timing is None or timing.floor is None:
        return None
    floor, candidate = timing.floor, timing.candidate
    limit_us, high_us = floor.limit_us, candidate.ci95_us[1]
    if limit_us is None or not high_us < limit_us:
        return None
    return _say(
        Verdict.REJECTED,
        "time.below_floor",
        f"One call took {candidate.median_us:.4g} us (95 % interval up to {high_us:.4g} us), and this device needs "
        f"{limit_us:.4g} us at the very least: 0.9 of the problem's floor, bound by {floor.bound_by}. Either "
        "the work was not done in the calls that were timed, or the time is not theirs: do all of it in every call, on "
        "the caller's stream.",
        median_us=candidate.median_us,
        ci95_us=candidate.ci95_us,
        **floor.model_dump(mode="json", exclude={"us"}),
        floor_us=floor.us,
    )


def _accepted(evidence: Evidence) -> Judgement:
    if evidence.timing is None:
        return _say(Verdict.ACCEPTED, "grade.correct", "Every output matches the reference.")
    timing = evidence.timing
    low, high = timing.speedup_ci95
    figures = f"{timing.speedup:.3g} times as fast as the reference (95 % interval {low:.3g} to {high:.3g})"
    match timing.comparison:
        case "same":
            message = f"Right, and as fast as the reference: {figures}."
        case "undecided":
            message = f"Right, and {figures}, which leaves open whether it is faster."
        case _:
            message = f"Right, and {figures}."
    return _say(Verdict.ACCEPTED, "grade.accepted", message)


def _unsteady(seen: Steadiness) -> Judgement:
    more = f", and {len(seen.why) - 1} more" if len(seen.why) > 1 else ""
    what = f": {seen.why[0]}{more}" if seen.why else ""
    return _say(
        Verdict.UNSTABLE,
        "device.unsteady",
        f"The outputs are right, and the device was not steady enough to time them, in {seen.measured_again} blocks"
        f"{what}. This is not the submission's fault: grade again when the device is cool and has nothing else to do.",
        **seen.model_dump(mode="json"),
    )


def _failed(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    if failure.phase == "start":
        return _say(
            Verdict.JUDGE_ERROR,
            "judge.worker_start",
            f"The worker could not be started, before any of the submission ran ({failure.message}).",
            traceback=failure.failed.traceback if failure.failed else "",
        )
    handlers = {"failed": _raised, "died": _died, "late": _late, "limit": _limit, "protocol": _protocol}
    return handlers[failure.kind](evidence, failure)


def _raised(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    failed = failure.failed
    assert failed is not None
    details = {**failed.evidence, "phase": failure.phase, "error": failed.error, "traceback": failed.traceback}
    refused = _refused(evidence)
    if refused is not None and refused.failure is not None and failed.category == "exception":
        if refused.failure.code == "build.needs_cuda":
            return _needs_cuda(refused.failure.message, details)
        return _not_built(refused)
    where = _PHASES.get(failure.phase, failure.phase)
    message = failed.message.strip() or "no message"
    first_line = message.splitlines()[0].strip()[:300]
    match failed.category:
        case "no_entry":
            return _say(Verdict.INVALID_SUBMISSION, "submission.no_model_new", f"{_sentence(message)}", **details)
        case "signature":
            return _say(
                Verdict.INVALID_SUBMISSION,
                "submission.signature",
                f"{_sentence(message)} Take the same constructor arguments as the problem's Model.",
                **details,
            )
        case "exit":
            return _say(
                Verdict.RUNTIME_ERROR, "run.exit", f"The submission called sys.exit {where}; let it return.", **details
            )
        case "device_memory" | "host_memory":
            kind = failed.category.removesuffix("_memory")
            sentence = _sentence(f"Out of {kind} memory {where}: {first_line}")
            return _say(Verdict.MEMORY_LIMIT, f"limit.{failed.category}", f"{sentence} Use less.", **details)
        case "cuda":
            code = "run.launch_failed" if _LAUNCH_ERRORS.search(message) else "run.cuda_error"
            return _say(Verdict.RUNTIME_ERROR, code, f"{_sentence(first_line)}{_cuda_hint(message)}", **details)
        case "output":
            return _say(Verdict.WRONG_ANSWER, "output.structure", _sentence(message), **details)
    if evidence.device == "cpu" and _NEEDS_CUDA.search(message):
        return _needs_cuda(f"{failed.error} {where}: {first_line}", details)
    line = failed.evidence.get("line")
    place = where if line is None else f"{where}, line {line}"
    said = f"{failed.error} {place}: {first_line.rstrip('.')}; correct what raises it."
    return _say(Verdict.RUNTIME_ERROR, "run.exception", said, **details)


def _refused(evidence: Evidence) -> BuildOutcome | None:
    return next((build for build in evidence.builds if not build.ok), None)


def _not_built(build: BuildOutcome) -> Judgement:
    assert build.failure is not None
    message = build.failure.message
    first = next((each for each in build.diagnostics if each.severity == "error"), None)
    if first is not None and build.failure.code == "build.failed":
        place = f"{first.file}:{first.line}: " if first.file and first.line else ""
        message = f"The extension did not compile: {place}{first.message}"
        message += f" ({first.hint})" if first.hint else ""
    return _say(Verdict.COMPILE_ERROR, build.failure.code, _sentence(message), **build.failure.evidence)


def _needs_cuda(what: str, details: Mapping[str, object]) -> Judgement:
    return _say(
        Verdict.RUNTIME_ERROR,
        "run.needs_cuda",
        f"The submission needs CUDA, and this grading runs on the CPU ({what}). Grade it on a machine with a GPU, or "
        "look at what its compiler says with `harness compile`.",
        **details,
    )


def _died(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    where = _PHASES.get(failure.phase, failure.phase)
    ended = failure.exit
    number = None
    if ended is not None:
        # A shell's and a PID namespace's way of passing a signal on.
        number = ended.signal or (ended.code - 128 if ended.code is not None and 128 < ended.code < 193 else None)
    details = {"phase": failure.phase, "exit_code": None if ended is None else ended.code, "signal": number}
    if number is None:
        return _say(
            Verdict.RUNTIME_ERROR,
            "run.died",
            f"The submission ended its process {where} (exit code {ended.code if ended else 'unknown'}) "
            "instead of returning.",
            **details,
        )
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    meaning = _SIGNALS.get(name, "")
    return _say(
        Verdict.RUNTIME_ERROR, "run.signal", f"{name} ended the submission's process {where}{meaning}.", **details
    )


def _late(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    where = _PHASES.get(failure.phase, failure.phase)
    return _say(
        Verdict.TIME_LIMIT,
        f"limit.{failure.phase}_time",
        f"No answer {where} within {failure.limit_s:g} s, the limit: look for a loop or a wait without end.",
        phase=failure.phase,
        limit_s=failure.limit_s,
    )


def _limit(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    ended = failure.exit
    assert ended is not None
    assert ended.limit is not None
    verdict, code, what, advice = _LIMITS[ended.limit]
    where = _PHASES.get(failure.phase, failure.phase)
    return _say(
        verdict,
        code,
        f"The submission went over its limit of {what} {where}: {failure.message}; {advice}.",
        phase=failure.phase,
        limit=ended.limit_value,
        used=ended.used,
    )


def _protocol(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    where = _PHASES.get(failure.phase, failure.phase)
    return _say(
        Verdict.RUNTIME_ERROR,
        "run.protocol",
        f"The submission's process stopped answering properly {where}: {failure.message}. "
        "Leave the file descriptors that you did not open alone.",
        phase=failure.phase,
    )


_PHASES = {
    "import": "while it was imported",
    "open": "while its process opened the device",
    "construct": "in the constructor",
    "load_state": "while the reference's parameters were loaded",
    "put": "while inputs were handed over",
    "call": "in forward",
    "fetch": "while outputs were handed over",
    "drop": "between calls",
}

_SIGNALS = {
    "SIGSEGV": ": it used memory that is not its own",
    "SIGABRT": ": it aborted itself",
    "SIGKILL": ": it was killed, often for want of memory",
    "SIGFPE": ": it divided by zero, or the like",
}

_LIMITS = {
    Limit.MEMORY: (Verdict.MEMORY_LIMIT, "limit.host_memory", "host memory", "use less"),
    Limit.OUTPUT: (Verdict.OUTPUT_LIMIT, "limit.output", "printed output", "print less"),
    Limit.DISK: (Verdict.OUTPUT_LIMIT, "limit.disk", "disk space", "write less"),
    Limit.PROCESSES: (Verdict.RUNTIME_ERROR, "limit.processes", "processes and threads", "start fewer"),
    Limit.WALL_TIME: (Verdict.TIME_LIMIT, "limit.total_time", "time", "be done sooner"),
    Limit.CPU_TIME: (Verdict.TIME_LIMIT, "limit.cpu_time", "CPU time", "be done sooner"),
}

_LAUNCH_ERRORS = re.compile(
    "invalid argument|invalid configuration|too many resources|cudaErrorInvalidValue|cudaErrorInvalidConfiguration|"
    "cudaErrorLaunchOutOfResources"
)
_NEEDS_CUDA = re.compile(r"cuda|nvidia", re.IGNORECASE)


def _cuda_hint(message: str) -> str:
    """What most often lies behind an error of the CUDA runtime."""
    for pattern, hint in _CUDA_HINTS:
        if re.search(pattern, message):
            return f" {hint}"
    return ""


_CUDA_HINTS = (
    (
        r"invalid argument|cudaErrorInvalidValue|invalid configuration|cudaErrorInvalidConfiguration",
        "The launch failed and the kernel never ran. A block may use 48 KB of shared memory unless "
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) raised its limit before the "
        "launch, and 1024 threads at most; grid sizes must not be zero.",
    ),
    (
        r"too many resources|cudaErrorLaunchOutOfResources",
        "The kernel needs more registers than a block of this size can have: use fewer threads, or __launch_bounds__.",
    ),
    (
        r"illegal memory access|misaligned|cudaErrorIllegalAddress|cudaErrorMisalignedAddress",
        "A kernel read or wrote where it must not: check indices against sizes, also at the edges.",
    ),
    (
        r"no kernel image|cudaErrorNoKernelImageForDevice",
        "The kernel was compiled for another architecture than this device's.",
    ),
)


def _values_message(leaf: LeafReport) -> str:
    total = math.prod(leaf.shape)
    place = "".join(f"[{index}]" for index in leaf.worst_index or [])
    return (
        f"{leaf.path} differs from the reference in {leaf.outside} of {total} elements; farthest at "
        f"{leaf.path}{place}: {_number(leaf.worst_value)}, expected {_number(leaf.worst_expected)}. {leaf.reading}"
    )


def _leaf_evidence(leaf: LeafReport) -> dict[str, object]:
    return leaf.model_dump(mode="json")


def _first_bad(leaves: list[LeafReport]) -> LeafReport | None:
    return next((leaf for leaf in leaves if not leaf.ok), None)


def _number(value: float | str | None) -> str:
    return f"{value:.6g}" if isinstance(value, float | int) else str(value)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


# Positional only: what a worker says may come with evidence of any name.
def _say(verdict: Verdict, code: str, message: str, /, **evidence: object) -> Judgement:
    return Judgement(verdict, Reason(code=code, message=message, evidence=evidence))
