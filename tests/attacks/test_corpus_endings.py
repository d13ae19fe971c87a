"""What an ending means, without grading anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.selftest.corpus import Attack, AttackClass, Case, Corpus, Honest, Kind
from harness.selftest.ending import Outcome, Result, Status, ended
from harness.selftest.summary import summary


def case(honest: bool = False, kind: Kind = "cuda", **settings: Any) -> Case:
    common = {"file": "one.py", "problem": "p", "device": "any"}
    entry: Attack | Honest = Honest(**common)
    if not honest:
        entry = Attack(**common, **{"classes": ("A1",), "verdict": ("rejected",), **settings})
    return Case(entry, "group", Path("group/one.py"), Path("problems/p"), kind, None)


def outcome(
    verdict: str, reason: str = "a.b", us: float | None = None, speedup: float | None = None, blurred: bool = False
) -> Outcome:
    return Outcome(verdict, reason, "Words.", us, speedup, blurred)


TIMED = {"verdict": ("rejected", "accepted"), "mode": "run", "at_least": 0.5, "twin": "twin.py"}
TWIN = outcome("accepted", us=100.0, speedup=2.0)


@pytest.mark.parametrize(
    ("attack", "got", "twin", "status"),
    [
        (case(), outcome("rejected"), None, Status.CAUGHT),
        (case(reason=("a.b",)), outcome("rejected", "a.b"), None, Status.CAUGHT),
        (case(reason=("a.b",)), outcome("rejected", "a.c"), None, Status.OTHERWISE),
        (case(), outcome("accepted"), None, Status.MISSED),
        (case(), outcome("judge_error"), None, Status.OTHERWISE),
        (case(), outcome("not_graded"), None, Status.OTHERWISE),
        (case(**TIMED), outcome("rejected"), TWIN, Status.CAUGHT),
        (case(**TIMED), outcome("accepted", us=60.0, speedup=2.5), TWIN, Status.CAUGHT),
        (case(**TIMED), outcome("accepted", us=40.0, speedup=2.0), TWIN, Status.MISSED),
        (case(**TIMED), outcome("accepted", us=100.0, speedup=5.0), TWIN, Status.MISSED),
        (case(kind="cpu", **TIMED), outcome("accepted", us=40.0, speedup=2.0), TWIN, Status.CAUGHT),
        (case(kind="cpu", **TIMED), outcome("accepted", us=100.0, speedup=5.0), TWIN, Status.MISSED),
        (case(**TIMED), outcome("accepted", us=0.0, speedup=1e12), TWIN, Status.MISSED),
        (case(**TIMED), outcome("accepted"), TWIN, Status.OTHERWISE),
        (case(**TIMED), outcome("accepted", us=60.0, speedup=2.0), None, Status.OTHERWISE),
        (case(**TIMED), outcome("accepted", us=60.0, speedup=2.0), outcome("unstable"), Status.OTHERWISE),
        (case(honest=True), outcome("accepted"), None, Status.FINE),
        (case(honest=True), outcome("rejected"), None, Status.FALSE_ALARM),
        (case(honest=True), outcome("unstable"), None, Status.FALSE_ALARM),
    ],
)
def test_an_ending_means(attack: Case, got: Outcome, twin: Outcome | None, status: Status) -> None:
    result = ended(attack, got, twin)
    assert result.status is status
    assert result.good is (status in (Status.CAUGHT, Status.FINE))
    assert bool(result.why) is not result.good


def test_a_busy_cpu_can_not_say() -> None:
    forged = outcome("accepted", us=10.0, speedup=20.0, blurred=True)
    assert ended(case(kind="cpu", **TIMED), forged, TWIN).status is Status.NOT_RUN
    assert ended(case(kind="cuda", **TIMED), forged, TWIN).status is Status.MISSED


def test_what_is_known_is_still_missed() -> None:
    result = ended(case(open="nobody looks there yet."), outcome("accepted"))
    assert result.status is Status.MISSED
    assert "nobody looks there yet" in result.why


def test_a_summary_counts_by_class() -> None:
    classes = {
        "A1": AttackClass(name="One", technique="x", meets="y"),
        "A2": AttackClass(name="Two", technique="x", meets="y", not_built="no."),
    }
    corpus = Corpus(Path(), classes, {})
    results = [
        ended(case(), outcome("rejected")),
        ended(case(), outcome("accepted")),
        ended(case(honest=True), outcome("rejected")),
        Result(case(), Status.NOT_RUN, "no sandbox"),
    ]
    found = summary(corpus, results, [case()])
    one = found["classes"]["A1"]
    assert (one["caught"], one["missed"], one["not_run"], one["elsewhere"]) == (1, 1, 1, 1)
    assert found["classes"]["A2"]["not_built"] == "no."
    assert found["honest"] == {"fine": 0, "false alarm": 1, "not run": 0}
    assert found["good"] is False
    assert summary(corpus, results[:1], [])["good"] is True
