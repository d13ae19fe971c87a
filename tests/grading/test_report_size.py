"""A submission that prints and builds as much as it may, graded; the compilers are fakes that say much."""

from __future__ import annotations

from typing import Any

import pytest

from harness.build.diagnostics import Diagnostic
from harness.build.outcome import BuildFailure, BuildOutcome
from harness.build.service import BuildService
from harness.cli.streams import document
from harness.judge.size import MAX_REPORT_BYTES

HOSTILE = """
from torch.utils.cpp_extension import load_inline

for number in range(70):
    try:
        load_inline(name="e" * 100 + str(number), cpp_sources="int f();")
    except Exception:
        print("\\x01" * 4000)


class ModelNew:
    pass


raise RuntimeError("\\x01" * 100_000)
"""


def talkative(*_: object, **__: object) -> BuildOutcome:
    one = Diagnostic(file="cpp_sources", line=1, column=1, severity="error", message="\x01" * 2000, hint="\x01" * 2000)
    return BuildOutcome(
        ok=False,
        library=None,
        module_name="m" * 240,
        key="k" * 64,
        cached=False,
        seconds=0.1,
        recipe="full",
        diagnostics=[one] * 200,
        log="\x01" * (256 << 10),
        kernels=[],
        failure=BuildFailure("build.failed", "\x01" * 8000, {"errors": 200}),
        diagnostics_left_out=800,
    )


def test_its_report_stays_small_and_says_what_is_left_out(graded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BuildService, "build", talkative)
    report = graded(HOSTILE)
    assert report.verdict == "compile_error"
    assert len(document(report).encode()) <= MAX_REPORT_BYTES
    assert report.build.left_out == [f"at least {63 * 200 + 64 * 800} more messages"]
    assert "report.cut" in [warning.code for warning in report.warnings]
    assert report.correctness is None
