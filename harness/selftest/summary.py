"""Results by class, as data: what the table in a terminal and the JSON document are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.selftest.corpus import Attack, AttackClass, Case, Corpus
from harness.selftest.ending import Result, Status


def summary(corpus: Corpus, results: Sequence[Result], elsewhere: Sequence[Case]) -> dict[str, Any]:
    """Everything that is shown. `elsewhere` are the entries that another kind of device is needed for."""
    counts = Counter(result.status.value for result in results)
    return {
        "good": all(result.good for result in results),
        "counts": {status.value: counts.get(status.value, 0) for status in Status},
        "classes": {name: _class_row(name, each, results, elsewhere) for name, each in corpus.classes.items()},
        "honest": {
            status: sum(1 for result in results if not _is_attack(result.case) and result.status.value == status)
            for status in (Status.FINE.value, Status.FALSE_ALARM.value, Status.NOT_RUN.value)
        },
        "entries": [_entry_row(result) for result in results],
        "elsewhere": [case.name for case in elsewhere],
    }


def _class_row(name: str, each: AttackClass, results: Sequence[Result], elsewhere: Sequence[Case]) -> dict[str, Any]:
    mine = [result for result in results if _does(result.case, name)]
    counts = Counter(result.status.value for result in mine)
    return {
        "name": each.name,
        **{
            status.value.replace(" ", "_"): counts.get(status.value, 0)
            for status in (Status.CAUGHT, Status.MISSED, Status.OTHERWISE, Status.NOT_RUN)
        },
        "elsewhere": sum(1 for case in elsewhere if _does(case, name)),
        "not_built": each.not_built,
    }


def _entry_row(result: Result) -> dict[str, Any]:
    entry, outcome = result.case.entry, result.outcome
    return {
        "entry": result.case.name,
        "kind": result.case.kind,
        "classes": list(entry.classes if isinstance(entry, Attack) else entry.like),
        "status": result.status.value,
        "why": result.why,
        "verdict": None if outcome is None else outcome.verdict,
        "reason": None if outcome is None else outcome.reason,
        "median_us": None if outcome is None else outcome.median_us,
        "speedup": None if outcome is None else outcome.speedup,
        "seconds": None if outcome is None else outcome.seconds,
    }


def _is_attack(case: Case) -> bool:
    return isinstance(case.entry, Attack)


def _does(case: Case, name: str) -> bool:
    return isinstance(case.entry, Attack) and name in case.entry.classes
