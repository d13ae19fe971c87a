"""However much a submission prints, builds and names, its report stays small and says what is not in it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.audit.findings import Audit, KernelUse
from harness.brief import cut
from harness.build.diagnostics import Diagnostic, KernelResources, Severity
from harness.build.outcome import BuildFailure, BuildOutcome
from harness.cli.streams import document
from harness.grading.builds import build_info
from harness.judge.size import MAX_REPORT_BYTES, fitted, size_of
from harness.judge.wording import say
from harness.report import Report, Verdict, Warning_

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text()
REPORT = Report.model_validate_json(re.findall(r"```json\n(.*?)```", _PAGE, re.DOTALL)[0])
WIDE = "\x01"
"""Six bytes in JSON."""


def message(severity: Severity = "error", text: str = "no") -> Diagnostic:
    return Diagnostic(file="cuda_sources", line=1, column=None, severity=severity, message=text, hint=text)


def kernel(name: str) -> KernelResources:
    figures = dict.fromkeys(
        ("registers", "shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "constant_bytes"), 1
    )
    return KernelResources(name=name, arch="sm_90", **figures)


def built(diagnostics: list[Diagnostic], kernels: list[KernelResources], **more: Any) -> BuildOutcome:
    return BuildOutcome(
        ok=False,
        library=None,
        module_name="m",
        key="k" * 64,
        cached=False,
        seconds=0.1,
        recipe="full",
        diagnostics=diagnostics,
        log="",
        kernels=kernels,
        failure=BuildFailure("build.failed", "no"),
        **more,
    )


def hostile() -> Report:
    """As much of everything as gets through to a report, in characters that take the most bytes."""
    text = WIDE * 2000
    builds = [built([message(text=text)] * 200, [kernel(WIDE * 8000)] * 256) for _ in range(64)]
    uses = [KernelUse(name=WIDE * 500, origin="library", calls=1, time_us=1, own=False)] * 200
    evidence = {WIDE * 512 + str(number): WIDE * 512 for number in range(20)} | {"traceback": WIDE * (64 << 10)}
    return REPORT.model_copy(
        update={
            "log": WIDE * (128 << 10),
            "build": build_info(builds),
            "audit": Audit(kernels=uses),
            "reason": say(Verdict.RUNTIME_ERROR, "run.exception", WIDE * (64 << 10), **evidence).reason,
            "warnings": [Warning_(code="precision.probe_failed", message=text)] * 8,
        }
    )


def test_a_hostile_report_is_cut_to_its_limit_and_says_so() -> None:
    whole = hostile()
    assert size_of(whole) > MAX_REPORT_BYTES
    small = fitted(whole)
    assert len(document(small).encode()) <= MAX_REPORT_BYTES
    assert small.verdict is whole.verdict
    assert small.reason.code == "run.exception"
    assert small.timing == whole.timing
    assert small.submission == whole.submission
    assert small.warnings[-1].code == "report.cut"
    assert "more characters" in small.log
    assert len(small.build.diagnostics) == 200
    assert Report.model_validate(json.loads(document(small))) == small


def test_rows_go_where_even_short_texts_are_too_much() -> None:
    assert REPORT.correctness is not None
    (right, *_) = REPORT.correctness.leaves
    wrong = right.model_copy(update={"ok": False, "path": "output[9999]"})
    leaves = REPORT.correctness.model_copy(update={"leaves": [right] * 20_000 + [wrong]})
    small = fitted(REPORT.model_copy(update={"correctness": leaves}))
    assert len(document(small).encode()) <= MAX_REPORT_BYTES
    assert small.correctness is not None
    assert small.correctness.leaves[0] == wrong
    assert small.warnings[-1].code == "report.cut"


def test_an_honest_report_stays_as_it_is() -> None:
    assert fitted(REPORT) is REPORT
    printed = REPORT.model_copy(update={"log": "x" * (128 << 10)})
    assert fitted(printed) is printed


def test_of_many_builds_a_report_holds_as_much_as_of_one() -> None:
    talkative = built([message("warning")] * 200, [kernel(str(number)) for number in range(200)])
    failed = built([message()] * 150, [], diagnostics_left_out=7, kernels_left_out=3)
    info = build_info([talkative, talkative, failed])
    assert [found.severity for found in info.diagnostics] == ["warning"] * 50 + ["error"] * 150
    assert len(info.kernels) == 256
    assert info.left_out == ["at least 357 more messages", "at least 147 more kernels"]
    assert build_info([failed]).left_out == ["at least 7 more messages", "at least 3 more kernels"]
    one = dataclasses.replace(failed, diagnostics_left_out=1, kernels_left_out=0)
    assert build_info([one]).left_out == ["at least one more message"]
    quiet = dataclasses.replace(failed, diagnostics_left_out=0, kernels_left_out=0)
    assert build_info([quiet]).left_out == []


@pytest.mark.parametrize(("text", "short"), [("abcd", "abcd"), ("abcdefg", "abcd ... (3 more characters)")])
def test_what_is_cut_is_counted(text: str, short: str) -> None:
    assert cut(text, 4) == short
