"""Reports of every kind, and an engine that hands them out, so that the command line is tested without grading."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from typing import Any

from harness.build.diagnostics import Diagnostic, KernelResources
from harness.report import (
    BuildInfo,
    Correctness,
    DeviceInfo,
    ExtensionInfo,
    FloorReport,
    LeafReport,
    Measurement,
    ProblemInfo,
    Reason,
    Report,
    Stage,
    SubmissionInfo,
    Timing,
    Verdict,
    Warning_,
)

DEVICE = DeviceInfo(
    kind="cuda",
    name="NVIDIA H200",
    index=0,
    uuid="GPU-01234567-89ab-cdef-0123-456789abcdef",
    compute_capability="9.0",
    sms=132,
    torch="2.11.0",
    python="3.12.3",
    platform="Linux 6.8 x86_64",
)


def report(verdict: Verdict, code: str, message: str, evidence: dict[str, Any] | None = None, **fields: Any) -> Report:
    """A report with everything around the verdict filled in."""
    return Report(
        **{
            "harness_version": "0.1.0",
            "created_at": datetime(2026, 11, 29, 14, 0, tzinfo=UTC),
            "verdict": verdict,
            "reason": Reason(code=code, message=message, evidence=evidence or {}),
            "problem": ProblemInfo(id="selective_scan", version="ab" * 32, workload="default"),
            "submission": SubmissionInfo(path="submissions/s6_v2.py", name="s6_v2.py", sha256="cd" * 32),
            "device": DEVICE,
            "stages": [Stage(name="load", seconds=0.04), Stage(name="build", seconds=18.23)],
            "seed": "73141592653589793238462643383279502884",
            **fields,
        }
    )


def measurement(median_us: float, spread: float = 0.01) -> Measurement:
    """Samples around a median, with a tail to the right as clocks see it."""
    noise = random.Random(1)
    samples = [median_us * (1 + spread * abs(noise.gauss(0, 1)) ** 1.5) for _ in range(200)]
    return Measurement(
        median_us=median_us,
        ci95_us=(median_us * (1 - spread / 9), median_us * (1 + spread / 8)),
        mean_us=sum(samples) / len(samples),
        min_us=min(samples),
        samples_us=samples,
        method="device events around one call, cold L2, behind queued work",
    )


FLOOR = FloorReport(
    us=31.7,
    bound_by="special_ops",
    way="projections as three fp16 products",
    per_resource_us={"bytes": 15.2, "special_ops": 32.1, "fp16_flops": 13.4},
    peaks={"bytes": 4.425e12, "special_ops": 4.18e12, "fp16_flops": 1.07e15},
    limit_us=11.1,
)


def leaf(path: str = "output", ok: bool = True, **fields: Any) -> LeafReport:
    """A leaf that compared well, unless `fields` says otherwise."""
    return LeafReport(
        **{
            "path": path,
            "shape": [16, 2048, 256],
            "dtype": "float32",
            "ok": ok,
            "atol": 1e-4,
            "rtol": 1e-4,
            "scale": 1.732,
            "max_abs_error": 2.1e-6,
            "max_rel_error": 3.4e-3,
            "rms_error": 1.2e-7,
            "fraction_outside": 0.0,
            "outside": 0,
            **fields,
        }
    )


def accepted(**fields: Any) -> Report:
    """What a good kernel gets."""
    return report(
        Verdict.ACCEPTED,
        "accepted.measured",
        "Right in 5 of 5 trials, and 146 times as fast as the reference.",
        **{
            "build": BuildInfo(
                seconds=18.2,
                extensions=[ExtensionInfo(name="s6_scan", key="ef" * 32, cached=False, seconds=18.2, recipe="lean")],
                kernels=[
                    KernelResources(
                        name="s6_scan_kernel(float const*, float const*, float*, int, int, int)",
                        arch="sm_90",
                        registers=40,
                        shared_bytes=0,
                        stack_bytes=16,
                        spill_store_bytes=12,
                        spill_load_bytes=8,
                        constant_bytes=560,
                    )
                ],
            ),
            "correctness": Correctness(
                trials=5, trials_asked=5, weights="transferred", leaves=[leaf()], timed_calls_verified=12
            ),
            "timing": Timing(
                candidate=measurement(957.1),
                reference=measurement(140_213.0, 0.002),
                speedup=146.5,
                speedup_ci95=(146.2, 146.8),
                comparison="faster",
                stopped_because="the interval was narrow enough (0.5 %)",
            ),
            "warnings": [
                Warning_(
                    code="build.spills",
                    message="s6_scan_kernel spills 20 bytes a thread to local memory; use fewer live values.",
                )
            ],
            "stages": [
                Stage(name=name, seconds=seconds)
                for name, seconds in (
                    ("load", 0.04),
                    ("build", 18.23),
                    ("check", 2.4),
                    ("time", 4.71),
                    ("audit", 0.3),
                    ("judge", 0.0004),
                )
            ],
            **fields,
        },
    )


def compile_error() -> Report:
    """Two parameters of one name, and no declaration in cpp_sources."""
    return report(
        Verdict.COMPILE_ERROR,
        "build.failed",
        "s6_scan does not compile: 2 errors, the first in cuda_sources line 12; correct them and grade again.",
        build=BuildInfo(
            seconds=31.0,
            diagnostics=[
                Diagnostic(
                    file="cuda_sources",
                    line=12,
                    column=None,
                    severity="error",
                    message='the parameter "D" has already been declared',
                    hint="Two parameters of one function have the name D: call the size d_model or the tensor D_skip.",
                ),
                Diagnostic(
                    file="main.cpp",
                    line=4,
                    column=22,
                    severity="error",
                    message="'s6_forward' was not declared in this scope",
                    hint="functions=['s6_forward'] needs its declaration in cpp_sources: "
                    "torch::Tensor s6_forward(torch::Tensor x, torch::Tensor delta);",
                ),
                Diagnostic(
                    file=None, line=None, column=None, severity="warning", message="variable [bold]n[/bold] is unused"
                ),
            ],
        ),
    )


def wrong_answer() -> Report:
    """One of two leaves is wrong."""
    return report(
        Verdict.WRONG_ANSWER,
        "output.values",
        "output[1] differs from the reference in 1,234,567 of 8,388,608 elements; compare from index (3, 100, 17) on.",
        {"trial": 2, "leaf": "output[1]"},
        correctness=Correctness(
            trials=2,
            trials_asked=5,
            weights="seeded",
            leaves=[
                leaf("output[0]"),
                leaf(
                    "output[1]",
                    ok=False,
                    max_abs_error=0.4213,
                    max_rel_error=1.3e4,
                    rms_error=0.011,
                    fraction_outside=0.14717,
                    outside=1_234_567,
                    worst_index=[3, 100, 17],
                    worst_value="nan",
                    worst_expected=0.0921234567,
                    worst_trial=2,
                    reading="The large relative error comes from elements near zero; the absolute one counts.",
                ),
            ],
        ),
    )


TRACEBACK = """Traceback (most recent call last):
  File "s6_v2.py", line 61, in forward
    return self.ext.s6_forward(x, delta, self.A_log, B, C, self.D)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
RuntimeError: CUDA error: invalid argument"""


def runtime_error() -> Report:
    """A launch that asks for too much shared memory, and a submission that tries to paint its own verdict."""
    return report(
        Verdict.RUNTIME_ERROR,
        "launch.shared_memory",
        "The launch failed: it asks for 65,536 bytes of shared memory a block, and 49,152 is the limit unless "
        "cudaFuncSetAttribute raises it; call it with MaxDynamicSharedMemorySize before the launch.",
        {"asked_bytes": 65536, "limit_bytes": 49152, "traceback": TRACEBACK},
        log="warming up\n\x1b[2J\x1b[1;32mACCEPTED\x1b[0m [bold]1000x[/bold]\r\x07done",
    )


class FakeEngine:
    """Stands in for `grade`: remembers how it was called, prints where it must not, returns or raises."""

    def __init__(self, outcome: Report | BaseException, events: tuple[Any, ...] = ()) -> None:
        self.outcome = outcome
        self.events = events
        self.calls: list[dict[str, Any]] = []

    def __call__(self, problem: Any, submission: Any, *, on_event: Any, **options: Any) -> Report:
        """Grade nothing."""
        self.calls.append({"problem": problem, "submission": submission, **options})
        print("the reference says hello")
        os.write(1, b"the compiler says hello\n")
        for event in self.events:
            on_event(event)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome
