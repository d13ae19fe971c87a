"""Which blocks count, from sequences of readings as devices give them. No GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from harness.clock.readings import Process, Reading
from harness.clock.steady import Watch, judge_block, merged

IDLE = Reading(sm_clock_mhz=345, memory_clock_mhz=3201, temperature_c=33, power_w=76, throttle=("gpu_idle",))
WORK = Reading(sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=45, power_w=310)
CAPPED = Reading(sm_clock_mhz=1755, memory_clock_mhz=3201, power_w=699, throttle=("sw_power_cap",))


def clocked(mhz: float) -> Reading:
    return Reading(sm_clock_mhz=mhz, memory_clock_mhz=3201)


class Script:
    """A source that reads out what it was given; the last reading stays."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._left = list(readings)

    def quick(self) -> Reading:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]

    full = quick


def watching(*readings: Reading, judged: bool = True) -> Watch:
    """A watch that reads only before and after a block, so that the script says what each block sees."""
    return Watch(Script(readings), judged=judged, period_s=3600)


def test_waiting_between_calls_is_not_a_clock_that_fell() -> None:
    assert merged([IDLE, WORK, IDLE]).sm_clock_mhz == 1980
    assert merged([clocked(345), WORK]).sm_clock_mhz == 1980


def test_a_block_that_was_only_seen_waiting_has_no_clock_and_counts() -> None:
    seen = merged([IDLE, IDLE])
    assert seen.sm_clock_mhz is None
    assert judge_block(seen, [WORK] * 3) is None


@pytest.mark.parametrize("bit", ["hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake"])
def test_a_device_that_slows_itself_down_is_unsteady_also_in_the_first_block(bit: str) -> None:
    found = judge_block(merged([WORK, Reading(sm_clock_mhz=1980, throttle=(bit,)), WORK]), [])
    assert found is not None
    assert found.code == "throttled"
    assert bit in found.message


@pytest.mark.parametrize("bit", ["gpu_idle", "applications_clocks", "sync_boost", "reliability", "bit_0x8000"])
def test_other_reasons_are_not(bit: str) -> None:
    assert judge_block(Reading(sm_clock_mhz=1980, throttle=(bit,)), [WORK]) is None


@pytest.mark.parametrize(("mhz", "steady"), [(1980, True), (1965, True), (1950, True), (1935, False), (2025, False)])
def test_a_clock_may_move_by_two_steps_and_not_by_three(mhz: float, steady: bool) -> None:
    found = judge_block(clocked(mhz), [WORK, clocked(1965), WORK])
    assert (found is None) is steady
    if found is not None:
        assert found.code == "sm_clock"
        assert found.message == f"the SM clock was {mhz} MHz, and 1980 MHz in the blocks before"


def test_the_share_can_be_set() -> None:
    assert judge_block(clocked(1935), [WORK], clock_share=0.05) is None


def test_the_first_block_has_nothing_to_be_held_against() -> None:
    assert judge_block(clocked(1200), []) is None


def test_a_clock_that_moves_under_the_power_cap_is_the_kernels_own_speed() -> None:
    assert judge_block(CAPPED, [WORK] * 3) is None
    assert judge_block(WORK, [CAPPED] * 3) is None


def test_the_power_cap_excuses_neither_heat_nor_the_memory_clock() -> None:
    hot = Reading(sm_clock_mhz=1755, throttle=("sw_power_cap", "sw_thermal_slowdown"))
    slow_memory = Reading(sm_clock_mhz=1755, memory_clock_mhz=2619, throttle=("sw_power_cap",))
    assert judge_block(hot, [CAPPED]) is not None
    found = judge_block(slow_memory, [CAPPED])
    assert found is not None
    assert found.code == "memory_clock"


def test_a_process_that_came_is_unsteady_and_one_that_was_there_is_not() -> None:
    there, came = Process(7, "Xorg"), Process(8, "python")
    seen = Reading(sm_clock_mhz=1980, other_processes=(there, came))
    assert judge_block(seen, [WORK], [there, came]) is None
    found = judge_block(seen, [WORK], [there])
    assert found is not None
    assert found.message == "python (pid 8) came onto the device"


def test_a_device_that_says_nothing_is_taken_for_steady() -> None:
    watch = watching(Reading())
    with watch.block() as block:
        pass
    assert watch.judge("candidate", block) is None
    summary = watch.summary()
    assert (summary.blocks, summary.measured_again, summary.sm_clock_mhz, summary.throttle) == (1, 0, None, [])


def read_by(watch: Watch) -> bool:
    """Whether a block, watched once before and once after, counts."""
    with watch.block() as block:
        pass
    return watch.judge("candidate", block) is None


def test_a_fall_of_the_clock_is_measured_again_and_is_in_the_summary() -> None:
    fall = Reading(sm_clock_mhz=1410, memory_clock_mhz=3201, temperature_c=88, power_w=400)
    watch = watching(IDLE, IDLE, WORK, WORK, WORK, fall, fall, WORK, WORK)
    assert [read_by(watch) for _ in range(4)] == [True, True, False, True]
    summary = watch.summary()
    assert (summary.blocks, summary.measured_again) == (3, 1)
    assert summary.why == ["the SM clock was 1410 MHz, and 1980 MHz in the blocks before"]
    assert summary.sm_clock_mhz == (1410, 1980)
    assert summary.temperature_c == (45, 88)
    assert summary.power_w == (310, 400)
    assert summary.throttle == []


def test_an_unsteady_block_is_no_measure_for_those_after_it() -> None:
    fall = clocked(1410)
    watch = watching(IDLE, WORK, WORK, fall, fall, fall, fall, fall, fall, WORK, WORK)
    assert [read_by(watch) for _ in range(5)] == [True, False, False, False, True]


def test_candidate_and_reference_may_run_at_clocks_of_their_own() -> None:
    watch = watching(IDLE, WORK, WORK, clocked(1800), clocked(1800), WORK, WORK, clocked(1800), clocked(1800))
    for side in ("candidate", "reference", "candidate", "reference"):
        with watch.block() as block:
            pass
        assert watch.judge(side, block) is None  # type: ignore[arg-type]


def test_what_is_not_judged_is_still_reported() -> None:
    watch = watching(WORK, WORK, WORK, clocked(800), clocked(800), judged=False)
    assert [read_by(watch) for _ in range(2)] == [True, True]
    assert watch.summary().sm_clock_mhz == (800, 1980)


def test_a_block_that_raises_leaves_no_thread_behind() -> None:
    watch = watching(WORK)
    with pytest.raises(RuntimeError, match="the block"), watch.block():
        raise RuntimeError("the block")
    for thread in threading.enumerate():
        if thread.name == "readings":
            thread.join(60)
            assert not thread.is_alive()


def test_processes_that_were_there_before_are_named_in_the_summary() -> None:
    there = Process(7, "Xorg")
    watch = watching(Reading(other_processes=(there,)), WORK)
    assert read_by(watch)
    assert watch.summary().other_processes == ["Xorg (pid 7)"]


def test_what_happens_within_a_block_is_read_as_well() -> None:
    class Falling(Script):
        """Slows down once, between the readings before and after the block."""

        def __init__(self) -> None:
            super().__init__([WORK])
            self.fell = threading.Event()
            self.asked = 0

        def quick(self) -> Reading:
            self.asked += 1
            if self.asked == 1:
                return WORK
            self.fell.set()
            return Reading(sm_clock_mhz=1200, throttle=("hw_thermal_slowdown",))

        def full(self) -> Reading:
            return WORK

    source = Falling()
    watch = Watch(source, period_s=0.001)
    with watch.block() as block:
        assert source.fell.wait(60)
        while not any(reading.throttle for reading in list(block.readings)):
            time.sleep(0.001)
    found = watch.judge("candidate", block)
    assert found is not None
    assert found.code == "throttled"
