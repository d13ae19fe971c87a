"""What a submission that did not get through to the end is told: compile errors, exceptions, deaths, limits."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from harness.build.diagnostics import Diagnostic
from harness.build.outcome import BuildOutcome
from harness.judge.evidence import Evidence
from harness.judge.wording import Judgement, count, say, sentence
from harness.report import Verdict
from harness.sandbox import Limit
from harness.workers.worker import WorkerFailure


def judge_failure(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    """Decide about a submission whose process failed."""
    if failure.phase == "start":
        return say(
            Verdict.JUDGE_ERROR,
            "judge.worker_start",
            f"The worker could not be started, before any of the submission ran ({failure.message}).",
            traceback=failure.failed.traceback if failure.failed else "",
        )
    handlers = {
        "failed": _raised,
        "died": _died,
        "late": _late,
        "limit": _limit,
        "protocol": _protocol,
        "hoarded": _hoarded,
        "hoarded_host": _hoarded,
    }
    return handlers[failure.kind](evidence, failure)


def _raised(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    failed = failure.failed
    assert failed is not None
    details = {**failed.evidence, "phase": failure.phase, "error": failed.error, "traceback": failed.traceback}
    refused = broken_build(evidence)
    if refused is not None and refused.failure is not None and failed.category == "exception":
        if refused.failure.code == "build.needs_cuda":
            return _needs_cuda(refused.failure.message, details)
        return not_built(refused)
    where = _PHASES.get(failure.phase, failure.phase)
    message = failed.message.strip() or "no message"
    first_line = message.splitlines()[0].strip()[:300]
    match failed.category:
        case "no_entry":
            return say(Verdict.INVALID_SUBMISSION, "submission.no_model_new", f"{sentence(message)}", **details)
        case "signature":
            return say(
                Verdict.INVALID_SUBMISSION,
                "submission.signature",
                f"{sentence(message)} Take the same constructor arguments as the problem's Model.",
                **details,
            )
        case "exit":
            return say(
                Verdict.RUNTIME_ERROR, "run.exit", f"The submission called sys.exit {where}; let it return.", **details
            )
        case "device_memory" | "host_memory":
            kind = failed.category.removesuffix("_memory")
            said = sentence(f"Out of {kind} memory {where}: {first_line}")
            return say(Verdict.MEMORY_LIMIT, f"limit.{failed.category}", f"{said} Use less.", **details)
        case "cuda":
            code = "run.launch_failed" if _LAUNCH_ERRORS.search(message) else "run.cuda_error"
            return say(Verdict.RUNTIME_ERROR, code, f"{sentence(first_line)}{_cuda_hint(message)}", **details)
        case "output":
            return say(Verdict.WRONG_ANSWER, "output.structure", sentence(message), **details)
    if evidence.device == "cpu" and _NEEDS_CUDA.search(message):
        return _needs_cuda(f"{failed.error} {where}: {first_line}", details)
    line = failed.evidence.get("line")
    place = where if line is None else f"{where}, line {line}"
    said = f"{failed.error} {place}: {first_line.rstrip('.')}; correct what raises it."
    return say(Verdict.RUNTIME_ERROR, "run.exception", said, **details)


def broken_build(evidence: Evidence) -> BuildOutcome | None:
    """The first extension that could not be built."""
    return next((build for build in evidence.builds if not build.ok), None)


def not_built(build: BuildOutcome) -> Judgement:
    """What a compile error is told as: the first errors with what to write instead."""
    assert build.failure is not None
    message = build.failure.message
    errors = [each for each in build.diagnostics if each.severity == "error"]
    if errors and build.failure.code == "build.failed":
        message = f"The extension did not compile: {'; '.join(map(_error_text, errors[:_ERRORS_NAMED]))}"
        left = len(errors) - _ERRORS_NAMED
        message += f"; and {count(left, 'further error')}" if left > 0 else ""
    return say(Verdict.COMPILE_ERROR, build.failure.code, sentence(message), **build.failure.evidence)


def _error_text(error: Diagnostic) -> str:
    place = f"{error.file}:{error.line}: " if error.file and error.line else ""
    if error.submission_line is not None:
        place = f"line {error.submission_line} ({place.removesuffix(': ')}): "
    hint = f" ({error.hint.rstrip('.')})" if error.hint else ""
    return f"{place}{error.message.rstrip('.')}{hint}"


def _needs_cuda(what: str, details: Mapping[str, object]) -> Judgement:
    return say(
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
        return say(
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
    return say(
        Verdict.RUNTIME_ERROR, "run.signal", f"{name} ended the submission's process {where}{meaning}.", **details
    )


def _late(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    where = _PHASES.get(failure.phase, failure.phase)
    return say(
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
    return say(
        verdict,
        code,
        f"The submission went over its limit of {what} {where}: {failure.message}; {advice}.",
        phase=failure.phase,
        limit=ended.limit_value,
        used=ended.used,
    )


def _hoarded(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    del evidence
    code = "limit.device_memory" if failure.kind == "hoarded" else "limit.host_memory"
    return say(Verdict.MEMORY_LIMIT, code, f"{sentence(failure.message)} Use less.")


def _protocol(evidence: Evidence, failure: WorkerFailure) -> Judgement:
    where = _PHASES.get(failure.phase, failure.phase)
    return say(
        Verdict.RUNTIME_ERROR,
        "run.protocol",
        f"The submission's process stopped answering properly {where}: {failure.message}. "
        "Leave the file descriptors that you did not open alone.",
        phase=failure.phase,
    )


_ERRORS_NAMED = 3
"""Compile errors in the sentence; the report has them all."""


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
