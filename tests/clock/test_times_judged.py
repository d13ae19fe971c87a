"""What the judge says of times: of an unsteady device, and of each thing that a speedup's interval can say."""

from __future__ import annotations

import math

import pytest

from harness import Verdict
from harness.judge.evidence import Evidence
from harness.judge.verdict import judge
from harness.report import LeafReport, Measurement, OutsideClock, Steadiness, Timing

RESTLESS = Steadiness(blocks=3, measured_again=21, why=["the device slowed itself down (hw_thermal_slowdown)", "more"])
MEASURED = Measurement(median_us=5, ci95_us=(5, 5), mean_us=5, min_us=5, samples_us=[5.0], method="")


def timing(comparison: str = "faster", confirmed: bool = True) -> Timing:
    return Timing.model_validate(
        {
            "candidate": MEASURED,
            "reference": MEASURED,
            "speedup": 1.01,
            "speedup_ci95": (0.99, 1.03),
            "comparison": comparison,
            "outside": OutsideClock(outside_us=9, inside_us=5, tolerance_us=1, calls=10, confirmed=confirmed),
            "stopped_because": "",
        }
    )


def leaf(ok: bool) -> LeafReport:
    return LeafReport(path="output", shape=[1], dtype="float32", ok=ok, atol=0, rtol=0, outside=1)


def test_an_unsteady_device_is_unstable_and_not_the_submissions_fault() -> None:
    found = judge(Evidence(early=[leaf(True)], unsteady=RESTLESS))
    assert (found.verdict, found.reason.code) == (Verdict.UNSTABLE, "device.unsteady")
    assert "in 21 blocks: the device slowed itself down (hw_thermal_slowdown), and 1 more." in found.reason.message
    assert "not the submission's fault" in found.reason.message
    assert found.reason.evidence["measured_again"] == 21


def test_a_wrong_answer_stays_one_on_an_unsteady_device() -> None:
    found = judge(Evidence(early=[leaf(False)], live=[leaf(False)], unsteady=RESTLESS))
    assert found.verdict is Verdict.WRONG_ANSWER


def test_clocks_that_disagree_on_an_unsteady_device_reject_nobody() -> None:
    evidence = Evidence(early=[leaf(True)], timing=timing(confirmed=False), unsteady=RESTLESS)
    assert judge(evidence).verdict is Verdict.UNSTABLE
    evidence.unsteady = None
    assert judge(evidence).reason.code == "time.not_confirmed"


def test_what_only_long_loops_show_is_said() -> None:
    outside = OutsideClock(
        outside_us=5.5,
        inside_us=5,
        tolerance_us=1,
        whole_us=9,
        whole_tolerance_us=2,
        single_us=5,
        calls=10,
        confirmed=False,
    )
    found = judge(Evidence(early=[leaf(True)], timing=timing().model_copy(update={"outside": outside})))
    assert found.reason.code == "time.not_confirmed"
    assert "said to take 5.00 us, and takes 9.00 us in long loops by the grader's own clock" in found.reason.message


@pytest.mark.parametrize(
    ("comparison", "says"),
    [
        ("faster", "Right, and 1.01 times as fast as the reference (95 % interval 0.99 to 1.03)."),
        ("slower", "Right, and 1.01 times as fast as the reference (95 % interval 0.99 to 1.03)."),
        ("same", "Right, and as fast as the reference: 1.01 times"),
        ("undecided", "Right; whether it is faster is open: 1.01 times as fast as"),
    ],
)
def test_the_message_says_no_more_than_the_interval(comparison: str, says: str) -> None:
    found = judge(Evidence(early=[leaf(True)], timing=timing(comparison)))
    assert found.verdict is Verdict.ACCEPTED
    assert says in found.reason.message


def test_an_interval_that_could_not_be_made_is_not_told_as_figures() -> None:
    endless = timing("undecided").model_copy(update={"speedup_ci95": (0.0, math.inf)})
    found = judge(Evidence(early=[leaf(True)], timing=endless))
    assert "1.01 times as fast as the reference (no interval could be given)." in found.reason.message
