"""The judge is a function of its evidence: every verdict, every reason, and which of two reasons counts."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
import signal
from typing import Any

import pytest

from harness import Verdict
from harness.audit.findings import Audit
from harness.build.diagnostics import Diagnostic
from harness.build.outcome import BuildFailure, BuildOutcome, FailureCode
from harness.check.compare import FormError
from harness.judge.evidence import Evidence
from harness.judge.verdict import judge
from harness.load.submission import SubmissionError
from harness.report import LeafReport
from harness.sandbox import Exit, Limit
from harness.workers.claims import Failed
from harness.workers.worker import WorkerFailure


def leaf(ok: bool = True, **changes: Any) -> LeafReport:
    figures: dict[str, Any] = {"scale": 1.0, "max_abs_error": 0.5, "fraction_outside": 0.5, "outside": 6}
    places = {"worst_index": [1, 2], "worst_value": 1.5, "worst_expected": 1.0, "worst_trial": 1, "reading": "So so."}
    leaf = LeafReport(path="output", shape=[3, 4], dtype="float32", ok=ok, atol=1e-4, rtol=1e-4, **figures, **places)
    return leaf.model_copy(update=changes)


RIGHT, WRONG = [leaf()], [leaf(ok=False)]


def build(code: FailureCode | None = None, *diagnostics: Diagnostic) -> BuildOutcome:
    failure = None if code is None else BuildFailure(code, "the builder's words", {"flag": "-x"})
    return BuildOutcome(
        ok=failure is None,
        library=None,
        module_name="m",
        key="",
        cached=False,
        seconds=0.1,
        recipe="none",
        diagnostics=list(diagnostics),
        log="",
        kernels=[],
        failure=failure,
    )


def raised(
    category: str = "exception", message: str = "the message", phase: str = "call", line: int | None = None
) -> WorkerFailure:
    return claiming({} if line is None else {"line": line}, category, message, phase)


def claiming(
    evidence: dict[str, Any], category: str = "exception", message: str = "the message", phase: str = "call"
) -> WorkerFailure:
    failed = Failed.model_validate(
        {
            "ticket": "",
            "type": "failed",
            "category": category,
            "error": "ValueError",
            "message": message,
            "traceback": "their traceback",
            "evidence": evidence,
        }
    )
    return WorkerFailure("failed", phase, message, failed=failed)


def died(*, code: int | None = None, number: int | None = None) -> WorkerFailure:
    return WorkerFailure("died", "call", "the process ended", exit=Exit(code=code, signal=number, limit=None))


def limited(limit: Limit) -> WorkerFailure:
    ended = Exit(code=None, signal=9, limit=limit, limit_value=10.0, used=11.0)
    return WorkerFailure("limit", "call", "it used 11, 10 are allowed", exit=ended)


def late(phase: str) -> WorkerFailure:
    return WorkerFailure("late", phase, "no answer", limit_s=3.0)


ERROR = Diagnostic(file="cuda_sources", line=7, column=1, severity="error", message="expected ';'", hint="add one")
NOTE = Diagnostic(file="cuda_sources", line=1, column=1, severity="note", message="in a template")

ACCEPTED, WRONG_ANSWER, REJECTED = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.REJECTED
RUNTIME, COMPILE, INVALID = Verdict.RUNTIME_ERROR, Verdict.COMPILE_ERROR, Verdict.INVALID_SUBMISSION
MEMORY, TIME, OUTPUT = Verdict.MEMORY_LIMIT, Verdict.TIME_LIMIT, Verdict.OUTPUT_LIMIT
OURS = Verdict.JUDGE_ERROR

CASES: list[tuple[dict[str, Any], Verdict, str, str]] = [
    # our own
    ({"internal": "our traceback"}, OURS, "judge.internal_error", "grader itself failed"),
    ({"failure": late("start")}, OURS, "judge.worker_start", "before any of the submission ran"),
    ({"failure": raised(phase="start")}, OURS, "judge.worker_start", "before any of the submission ran"),
    ({"failure": dataclasses.replace(died(code=1), phase="start")}, OURS, "judge.worker_start", "could not be started"),
    # no submission
    ({"invalid": SubmissionError("submission.empty", "It is empty.")}, INVALID, "submission.empty", "It is empty."),
    ({"failure": raised("no_entry")}, INVALID, "submission.no_model_new", "^The message.$"),
    ({"failure": raised("signature")}, INVALID, "submission.signature", "Take the same constructor arguments"),
    # builds
    ({"failure": raised(), "builds": [build(), build("build.failed", NOTE, ERROR)]}, COMPILE, "build.failed",
     r"^The extension did not compile: cuda_sources:7: expected ';' \(add one\).$"),
    ({"failure": raised(), "builds": [build("build.failed")]}, COMPILE, "build.failed", "^The builder's words.$"),
    ({"failure": raised(), "builds": [build("build.time_limit", ERROR)]}, COMPILE, "build.time_limit", "builder's"),
    ({"failure": raised(), "builds": [build("build.needs_cuda")], "device": "cpu"}, RUNTIME, "run.needs_cuda",
     "runs on the CPU"),
    ({"failure": raised("cuda"), "builds": [build("build.failed")]}, RUNTIME, "run.cuda_error", "The message"),
    ({"mode": "compile", "builds": [build()]}, ACCEPTED, "grade.compiled", "^1 extension built.$"),
    ({"mode": "compile", "builds": []}, ACCEPTED, "grade.compiled", "^0 extensions built.$"),
    # A failed build counts although nothing was raised: in a constructor that stopped for want of a device, or caught.
    ({"mode": "compile", "builds": [build(), build("build.failed", ERROR)]}, COMPILE, "build.failed", "expected ';'"),
    ({"builds": [build("build.failed")], "early": RIGHT, "live": RIGHT}, ACCEPTED, "grade.correct", "matches"),
    # exceptions
    ({"failure": raised(message="one\ntwo", line=12)}, RUNTIME, "run.exception",
     "^ValueError in forward, line 12: one; correct what raises it.$"),
    ({"failure": raised(message=" ", phase="import")}, RUNTIME, "run.exception", "while it was imported: no message"),
    ({"failure": raised(phase="construct")}, RUNTIME, "run.exception", "^ValueError in the constructor: the message"),
    ({"failure": raised(phase="load_state")}, RUNTIME, "run.exception", "while the reference's parameters were loaded"),
    ({"failure": raised("exit")}, RUNTIME, "run.exit", "called sys.exit in forward"),
    ({"failure": raised(message="No CUDA GPUs are there"), "device": "cpu"}, RUNTIME, "run.needs_cuda", "with a GPU"),
    ({"failure": raised(message="No CUDA GPUs are there"), "device": "cuda"}, RUNTIME, "run.exception", "No CUDA"),
    ({"failure": raised("device_memory", "too much\nof it")}, MEMORY, "limit.device_memory",
     "^Out of device memory in forward: too much. Use less.$"),
    ({"failure": raised("host_memory")}, MEMORY, "limit.host_memory", "^Out of host memory in forward: the message."),
    ({"failure": raised("output")}, WRONG_ANSWER, "output.structure", "^The message.$"),
    ({"failure": raised("cuda", "CUDA error: invalid argument\nCompile with")}, RUNTIME, "run.launch_failed",
     r"^CUDA error: invalid argument. The launch failed.*48 KB"),
    ({"failure": raised("cuda", "too many resources requested")}, RUNTIME, "run.launch_failed", "__launch_bounds__"),
    ({"failure": raised("cuda", "an illegal memory access")}, RUNTIME, "run.cuda_error", "check indices"),
    ({"failure": raised("cuda", "no kernel image")}, RUNTIME, "run.cuda_error", "another architecture"),
    # ends
    ({"failure": died(code=0)}, RUNTIME, "run.died", r"ended its process in forward \(exit code 0\)"),
    ({"failure": dataclasses.replace(died(), exit=None)}, RUNTIME, "run.died", "exit code unknown"),
    ({"failure": died(number=signal.SIGSEGV)}, RUNTIME, "run.signal", "^SIGSEGV ended .* memory that is not its own"),
    ({"failure": died(code=128 + 6)}, RUNTIME, "run.signal", "^SIGABRT ended"),
    ({"failure": died(number=33)}, RUNTIME, "run.signal", "^signal 33 ended"),
    ({"failure": died(code=255)}, RUNTIME, "run.died", "exit code 255"),
    ({"failure": WorkerFailure("protocol", "fetch", "no JSON")}, RUNTIME, "run.protocol", "handed over: no JSON"),
    # limits
    *[({"failure": late(phase)}, TIME, f"limit.{phase}_time", "within 3 s, the limit")
      for phase in ("open", "import", "construct", "load_state", "put", "call", "fetch", "drop")],
    ({"failure": limited(Limit.MEMORY)}, MEMORY, "limit.host_memory", "host memory in forward: .*; use less"),
    ({"failure": limited(Limit.OUTPUT)}, OUTPUT, "limit.output", "print less"),
    ({"failure": limited(Limit.DISK)}, OUTPUT, "limit.disk", "write less"),
    ({"failure": limited(Limit.PROCESSES)}, RUNTIME, "limit.processes", "start fewer"),
    ({"failure": limited(Limit.WALL_TIME)}, TIME, "limit.total_time", "be done sooner"),
    ({"failure": limited(Limit.CPU_TIME)}, TIME, "limit.cpu_time", "be done sooner"),
    # outputs
    *[({"form": FormError(f"output.{name}", "It is another.", {"got": 1})}, WRONG_ANSWER, f"output.{name}", "another")
      for name in ("structure", "dtype", "shape", "device", "values")],
    ({"form": FormError("output.tensor_type", "It is lazy.")}, REJECTED, "output.tensor_type", "^It is lazy.$"),
    ({"early": WRONG, "live": WRONG}, WRONG_ANSWER, "output.values",
     r"in 6 of 12 elements; farthest at output\[1\]\[2\]: 1.5, expected 1"),
    ({"early": WRONG}, WRONG_ANSWER, "output.values", "differs from the reference"),
    ({"early": [leaf(), leaf(ok=False, path="output[1]")], "live": WRONG}, WRONG_ANSWER, "output.values",
     r"^output\[1\] differs"),
    ({"early": WRONG, "live": RIGHT}, REJECTED, "output.unfinished", "right only later"),
    ({"early": RIGHT, "live": WRONG}, REJECTED, "output.overwritten", "changed afterwards"),
    ({"early": RIGHT, "live": RIGHT, "timed": WRONG}, WRONG_ANSWER, "output.timed_values", "kept from call to call"),
    ({"early": RIGHT, "live": RIGHT, "mutated": WRONG}, REJECTED, "input.mutated", "6 of 12 elements.*work on a copy"),
    ({"early": RIGHT, "live": RIGHT, "audit": Audit(), "own_kernel_share": 0.5, "trace_prevented": True}, REJECTED,
     "policy.no_trace", "50 % of the GPU time, and no trace"),
    ({"early": RIGHT, "live": RIGHT, "audit": Audit(), "own_kernel_share": 0.5}, ACCEPTED, "grade.correct", ""),
    ({"failure": WorkerFailure("hoarded", "call", "the submission held 90 GB")}, MEMORY, "limit.device_memory",
     "^The submission held 90 GB. Use less"),
    ({"failure": WorkerFailure("hoarded_host", "call", "the submission held 90 GB")}, MEMORY, "limit.host_memory",
     "^The submission held 90 GB. Use less"),
    ({"early": RIGHT, "live": RIGHT}, ACCEPTED, "grade.correct", "^Every output matches the reference.$"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "verdict", "code", "says"), CASES, ids=[f"{n} {code}" for n, (_, _, code, _) in enumerate(CASES)]
)
def test_every_reason(fields: dict[str, Any], verdict: Verdict, code: str, says: str) -> None:
    found = judge(Evidence(**fields))
    assert (found.verdict, found.reason.code) == (verdict, code)
    assert re.search(says, found.reason.message), found.reason.message
    assert found.reason.message.endswith(".")
    assert "\n" not in found.reason.message


# From the one that dominates all others down; each with the evidence that brings it about.
ORDER: list[tuple[str, dict[str, Any]]] = [
    ("judge.internal_error", {"internal": "our traceback"}),
    ("submission.empty", {"invalid": SubmissionError("submission.empty", "It is empty.")}),
    ("run.died", {"failure": died(code=0)}),
    ("output.shape", {"form": FormError("output.shape", "It is flat.")}),
    ("output.values", {"early": WRONG, "live": WRONG}),
    ("output.timed_values", {"timed": WRONG}),
    ("input.mutated", {"mutated": WRONG}),
]


@pytest.mark.parametrize(("higher", "lower"), list(itertools.combinations(ORDER, 2)), ids=lambda entry: entry[0])
def test_the_reason_that_comes_first_counts(higher: tuple[str, Any], lower: tuple[str, Any]) -> None:
    found = judge(Evidence(**(lower[1] | higher[1])))
    assert found.reason.code == higher[0]


def test_a_failure_to_start_is_ours_even_where_a_build_failed() -> None:
    found = judge(Evidence(failure=late("start"), builds=[build("build.failed")]))
    assert found.verdict is OURS


@pytest.mark.parametrize(("fields", "verdict"), [(fields, verdict) for fields, verdict, _, _ in CASES])
def test_a_further_workload_is_named_where_something_went_wrong_there(fields: dict[str, Any], verdict: Verdict) -> None:
    plain, there = judge(Evidence(**fields)), judge(Evidence(**fields, workload="odd"))
    assert (there.verdict, there.reason.code) == (plain.verdict, plain.reason.code)
    named = "its workload 'odd'" in there.reason.message and there.reason.evidence.get("workload") == "odd"
    assert named == (verdict not in (ACCEPTED, OURS))


@pytest.mark.parametrize("name", ["verdict", "code", "message", "phase", "error", "evidence", "self"])
def test_evidence_that_a_worker_names_like_something_of_ours_does_no_harm(name: str) -> None:
    found = judge(Evidence(failure=claiming({name: "theirs"})))
    assert (found.verdict, found.reason.code) == (RUNTIME, "run.exception")
    # What we say ourselves stands; the rest is kept under the name that it came with.
    assert (found.reason.evidence[name] == "theirs") is (name not in ("phase", "error"))


def test_the_evidence_is_left_as_it_was() -> None:
    for fields, *_ in CASES:
        evidence = Evidence(**fields)
        before = copy.copy(vars(evidence))
        judge(evidence)
        assert vars(evidence) == before


def test_every_limit_of_a_sandbox_has_a_verdict() -> None:
    for limit in Limit:
        found = judge(Evidence(failure=limited(limit)))
        assert found.reason.evidence["limit"] == 10.0
        assert found.reason.evidence["used"] == 11.0
