"""A batch's results as KernelBench's `eval_results.json`, for whatever reads that.

    {"23": [{"sample_id": 0, "compiled": true, "correctness": true, "metadata": {...}, "runtime": 0.417,
             "runtime_stats": {"mean": ..., "std": ..., "min": ..., "max": ..., "num_trials": ...}}]}

Problems are by their number within one level, times in milliseconds and -1 where there are none, as KernelBench writes
them. What it does not measure or know is left out; what it has no place for (interval, verdict, reason, speedup) is in
`metadata`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from typing import Any

from harness.batch.store import Result
from harness.report import Report, Verdict

_SAMPLE = re.compile(r"(?<![A-Za-z0-9])level_(\d{1,4})_problem_(\d{1,6})_sample_(\d{1,9})(?![0-9])")
_NUMBER = re.compile(r"(?:.*/)?(\d{1,6})_")


class NotKernelBench(Exception):
    """The results have no place in such a file. The message is one plain sentence."""


def eval_results(results: Iterable[Result], level: int | None = None) -> dict[str, list[dict[str, Any]]]:
    """The document. Results of problems without a number are left out. Raises NotKernelBench where none has one, or
    where they are of several levels and none was named."""
    found: dict[str, list[tuple[int | None, dict[str, Any]]]] = {}
    levels: set[int | None] = set()
    for result in results:
        number = _NUMBER.match(result.problem)
        if number is None or (level is not None and result.level != level):
            continue
        levels.add(result.level)
        sample = _SAMPLE.search(result.id)
        found.setdefault(str(int(number[1])), []).append((None if sample is None else int(sample[3]), _entry(result)))
    if not found:
        raise NotKernelBench("No result is of a problem with a number, as KernelBench's 23_Softmax.py has.")
    if len(levels) > 1:
        names = ", ".join("none" if each is None else str(each) for each in sorted(levels, key=str))
        raise NotKernelBench(f"The results are of several levels ({names}); name one, as in --level 1.")
    return {number: _numbered(found[number]) for number in sorted(found, key=int)}


def _numbered(entries: list[tuple[int | None, dict[str, Any]]]) -> list[dict[str, Any]]:
    """With the sample's own number, or the next free one for a submission without."""
    taken = {sample for sample, _ in entries if sample is not None}
    free = (number for number in range(len(entries) + len(taken)) if number not in taken)
    return [{"sample_id": next(free) if sample is None else sample, **entry} for sample, entry in entries]


def _entry(result: Result) -> dict[str, Any]:
    report = result.report
    times_ms = _samples_ms(report)
    return {
        "compiled": report.verdict not in (Verdict.COMPILE_ERROR, Verdict.INVALID_SUBMISSION, Verdict.JUDGE_ERROR),
        "correctness": report.accepted,
        "metadata": _metadata(result, report),
        "runtime": report.score.time_us / 1e3 if report.accepted and report.score is not None else -1.0,
        "runtime_stats": {
            "mean": statistics.fmean(times_ms),
            "std": statistics.pstdev(times_ms),
            "min": min(times_ms),
            "max": max(times_ms),
            "num_trials": len(times_ms),
        }
        if report.accepted and times_ms
        else {},
    }


def _samples_ms(report: Report) -> list[float]:
    """Of the one workload that ranks; several have no samples in common."""
    return [] if report.timing is None else [us / 1e3 for us in report.timing.candidate.samples_us]


def _metadata(result: Result, report: Report) -> dict[str, Any]:
    found: dict[str, Any] = {
        "hardware": None if report.device is None else report.device.name,
        "device": None if report.device is None else report.device.kind,
        "id": result.id,
        "attempt": result.attempt,
        "verdict": report.verdict.value,
        "reason": report.reason.code,
        "harness_version": report.harness_version,
    }
    if report.correctness is not None:
        found["correctness_trials"] = f"({report.correctness.trials} / {report.correctness.trials_asked})"
    if not report.accepted:
        found["message"] = report.reason.message
    if report.score is not None:
        found |= {"speedup": report.score.speedup, "speedup_ci95": list(report.score.speedup_ci95)}
    return found
