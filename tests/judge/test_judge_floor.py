"""`time.below_floor`: when a time is too good to be true, and when it is merely good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.evidence import Evidence
from harness.judge.verdict import judge
from harness.report import FloorReport, LeafReport, Measurement, Timing, Verdict

LIMIT_US = 60.0


def evidence(median_us: float, high_us: float, limit_us: float | None = LIMIT_US, **found: object) -> Evidence:
    """A right submission with that time, on a device with that limit."""
    measured = Measurement(
        median_us=median_us,
        ci95_us=(min(median_us, high_us), high_us),
        mean_us=median_us,
        min_us=median_us,
        samples_us=[median_us],
        method="none",
    )
    floor = FloorReport(
        us=91.0,
        bound_by="bytes",
        way="any",
        per_resource_us={"bytes": 91.0},
        peaks={"bytes": 4.425e12},
        limit_us=limit_us,
    )
    # Only what the judge reads: whatever else a clock adds has no say in this rule.
    timing = Timing.model_construct(
        candidate=measured,
        reference=measured,
        speedup=10.0,
        speedup_ci95=(9.9, 10.1),
        floor=floor,
        floor_us=floor.us,
        fraction_of_floor=floor.us / median_us,
        outside=None,
        stopped_because="enough",
    )
    made = Evidence(timing=timing)
    for name, value in found.items():
        setattr(made, name, value)
    return made


def test_a_time_below_the_limit_is_rejected_with_both_figures():
    judgement = judge(evidence(12.3, 12.5))
    assert (judgement.verdict, judgement.reason.code) == (Verdict.REJECTED, "time.below_floor")
    for figure in ("12.3 us", "12.5 us", "60 us", "bytes"):
        assert figure in judgement.reason.message
    found = judgement.reason.evidence
    assert (found["median_us"], found["limit_us"], found["floor_us"]) == (12.3, 60.0, 91.0)
    assert found["peaks"] == {"bytes": 4.425e12}


@pytest.mark.parametrize("high_us", [LIMIT_US, 60.1, 90.0, 1e6])
def test_an_interval_that_reaches_the_limit_is_believed(high_us):
    assert judge(evidence(50.0, high_us)).reason.code == "grade.accepted"


def test_faster_than_the_floor_but_above_the_limit_is_merely_good():
    assert judge(evidence(85.0, 86.0)).verdict is Verdict.ACCEPTED


def test_a_device_whose_peaks_are_no_bounds_rejects_nothing():
    assert judge(evidence(0.001, 0.002, limit_us=None)).verdict is Verdict.ACCEPTED


def test_without_a_floor_nothing_is_below_it():
    without = evidence(0.001, 0.002)
    assert without.timing is not None
    without.timing = without.timing.model_copy(update={"floor": None})
    assert judge(without).verdict is Verdict.ACCEPTED


def test_a_wrong_output_counts_before_an_impossible_time():
    leaf = LeafReport(path="output", shape=[4], dtype="float32", ok=False, atol=1e-4, rtol=1e-4, outside=4)
    assert judge(evidence(12.3, 12.5, early=[leaf])).verdict is Verdict.WRONG_ANSWER


@given(st.floats(min_value=0.01, max_value=1e4), st.floats(min_value=0, max_value=1e4))
def test_it_is_the_upper_end_that_decides(high_us, limit_us):
    rejected = judge(evidence(high_us / 2, high_us, limit_us)).reason.code == "time.below_floor"
    assert rejected == (high_us < limit_us)
