"""What is confirmed has to be what is reported, also where the clocks agreed only in a later round."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.clock import stage as stages
from harness.clock.bench import OutputChanged
from harness.clock.outside import Agreement, Walls
from harness.clock.plan import Goal, Plan
from harness.clock.processes import Processes
from harness.clock.readings import Reading
from harness.clock.stage import TimeStage
from harness.clock.stats import median_interval, ratio_interval
from harness.clock.steady import Watch
from harness.judge.evidence import Evidence
from harness.judge.verdict import judge
from harness.workers import claims


class _Still:
    """A device of which nothing can be read."""

    def quick(self) -> Any:
        return self.full()

    def full(self) -> Any:
        return Reading()


def agreed(single_us: float, confirmed: bool, tolerance_us: float = 1.0) -> Agreement:
    outside_us = single_us if confirmed else 10 * single_us
    return Agreement(
        outside_us=outside_us,
        inside_us=single_us,
        tolerance_us=tolerance_us,
        whole_us=single_us,
        whole_tolerance_us=1.0,
        single_us=single_us,
        single_tolerance_us=1.0,
        single_outside_us=single_us,
        single_outside_tolerance_us=1.0,
        bare_outside_us=single_us,
        bare_tolerance_us=1.0,
        calls=10,
        exact=False,
        ahead=True,
    )


def stage_without_a_device(kind: str, *, idle: bool) -> Any:
    """A stage that has come to confirming, without loops and blocks of its own. `idle`: whether the device is so
    before the probe is measured."""
    stage: Any = object.__new__(TimeStage)
    stage._device, stage._times, stage._flush_us = torch.device(kind), 2, 100.0
    stage._oracle = SimpleNamespace(call_bytes=8, output_bytes=8)
    stage._evidence, stage._watch = Evidence(), Watch(_Still())  # type: ignore[arg-type]
    stage._baselines, stage._compared, stage._idle = {"reference": SimpleNamespace()}, [], True
    bench = SimpleNamespace(mode="host", worker=SimpleNamespace(), fitting=lambda _: 100)
    stage._processes = Processes(bench)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def alone(*_: object) -> Iterator[bool]:
        yield idle

    stage._alone = stage._blaming = alone
    stage._bare, stage._hosts_us, stage._queued_us = lambda _: [50.0] * 5, [], 0.0
    stage._probe_alone = lambda *_: SimpleNamespace(probe=SimpleNamespace(us=5.0))
    return stage


@pytest.mark.parametrize(
    ("later_us", "kind", "code"),
    [
        (100.0, "cuda", "device.unsteady"),
        (10.3, "cuda", None),
        (100.0, "cpu", "device.unsteady"),
        (19.0, "cpu", None),
    ],
)
def test_calls_that_became_slower_confirm_nothing_that_was_said_before(
    monkeypatch: pytest.MonkeyPatch, later_us: float, kind: str, code: str | None
) -> None:
    rounds = iter([agreed(10.0, False), agreed(later_us, True)])
    monkeypatch.setattr(stages, "agreement", lambda *_, **__: next(rounds))
    stage = stage_without_a_device(kind, idle=True)
    stage._processes.singles.extend([(10.0, 900.0)] * 20)
    stage._loops = lambda *_: ([Walls(100)], Walls(100))
    shares: list[float] = []

    def block(_: object, calls: int, share: float) -> None:
        shares.append(share)
        stage._processes.singles.extend([(later_us, 900.0)] * 3)

    stage._block = block
    found = stage._confirm(stage._probe_alone(), [[10.0] * 10] * 2, 0.0)
    assert found.confirmed
    # Who knows that it is a further try must not gain by leaving its calls undone. The last call is always looked at.
    assert shares == [0.5, 1.0]
    judged = judge(stage._evidence).reason.code
    assert (judged == "device.unsteady") == (code is not None)
    if code is not None:
        assert "a call took 10.00 us in the blocks and 100.00 us when" in judge(stage._evidence).reason.message


def test_what_was_held_against_a_probe_on_a_busy_device_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "agreement", lambda *_, **__: agreed(10.0, True))
    stage = stage_without_a_device("cuda", idle=False)

    def loops(*_: object) -> tuple[list[Walls], Walls]:
        stage._idle = False
        return [Walls(100)], Walls(100)

    stage._loops, stage._block = loops, lambda *_: None
    stage._confirm(stage._probe_alone(), [[10.0] * 10] * 2, 0.0)
    assert judge(stage._evidence).reason.code == "device.unsteady"
    assert "went on working for the submission" in judge(stage._evidence).reason.message


@pytest.mark.parametrize("liar", [None, 0, 2])
def test_who_lies_in_one_of_several_processes_and_is_honest_in_a_further_round_gains_nothing(
    monkeypatch: pytest.MonkeyPatch, liar: int | None
) -> None:
    said_us = [0.5 if number == liar else 5.0 for number in range(4)]
    stage = stage_without_a_device("cuda", idle=True)
    for number in range(1, 4):
        bench = stage._processes.bench
        further = SimpleNamespace(**{**vars(bench), "follow": lambda _: None})
        stage._processes.add(further)
        assert len(stage._processes) == number + 1
    rounds: list[int] = []

    def loops(*_: object) -> tuple[list[Walls], Walls]:
        rounds.append(len(rounds))
        return [Walls(100)] * 4, Walls(100)

    numbers = iter(range(100))

    def agreement(*_: object, **__: object) -> Agreement:
        first, process = len(rounds) == 1, next(numbers) % 4
        return agreed(said_us[process] if first else 5.0, not (first and process == liar))

    monkeypatch.setattr(stages, "agreement", agreement)
    stage._loops, stage._block = loops, lambda *_: None
    stage._each_process = lambda: iter(range(4))
    blocks = [[said_us[number % 4]] * 10 for number in range(8)]
    assert stage._confirm(stage._probe_alone(), blocks, 0.0).confirmed
    judged = judge(stage._evidence).reason
    assert (judged.code == "device.unsteady") == (liar is not None)
    assert liar is None or "a call took 0.50 us in the blocks and 5.00 us when" in judged.message


@pytest.mark.parametrize(
    ("call_us", "tolerance_us", "kind", "known"),
    [
        (2.0, 8.0, "cuda", True),  # and 1 us of single calls beside loops
        (2.0, 10.0, "cuda", False),
        (0.0, 350.0, "cuda", False),
        (200.0, 198.0, "cuda", True),
        (200.0, 200.0, "cuda", False),
        (200.0, 4000.0, "cpu", True),
    ],
)
def test_clocks_that_could_be_further_apart_than_a_call_takes_confirm_nothing(
    monkeypatch: pytest.MonkeyPatch, call_us: float, tolerance_us: float, kind: str, known: bool
) -> None:
    """Work that was left undone is not accepted for a busy host that nobody can see it on."""
    asked: list[None] = []

    def agreement(*_: object, **__: object) -> Agreement:
        asked.append(None)
        return agreed(call_us, True, tolerance_us)

    monkeypatch.setattr(stages, "agreement", agreement)
    stage = stage_without_a_device(kind, idle=True)
    stage._loops, stage._block = lambda *_: ([Walls(100)], Walls(100)), lambda *_: None
    stage._confirm(stage._probe_alone(), [[call_us] * 10] * 2, 0.0)
    assert len(asked) == (1 if known else 3)  # it may be quieter the next time
    judged = judge(stage._evidence).reason
    assert (judged.code == "device.unsteady") is not known
    assert known or "processors or the device busy" in judged.message


def test_what_each_process_is_confirmed_by_stays_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The middle one by its single calls, whose loops are slower, beside one whose walls say less."""
    stage = stage_without_a_device("cuda", idle=True)
    for _ in range(2):
        stage._processes.add(SimpleNamespace(**{**vars(stage._processes.bench), "follow": lambda _: None}))
    stage._each_process = lambda: iter([None] * 3)
    known = replace(agreed(100.0, True), exact=True, inside_us=140.0, outside_us=140.0)
    found = [
        replace(known, single_outside_tolerance_us=2.0),
        replace(known, single_outside_tolerance_us=3.0),
        replace(agreed(100.0, True), exact=True, single_outside_tolerance_us=12.0),
    ]
    assert [each.by_singles for each in found] == [True, True, False]
    numbers = iter(range(3))
    monkeypatch.setattr(stages, "agreement", lambda *_, **__: found[next(numbers)])
    stage._loops, stage._block = lambda *_: ([Walls(100)] * 3, Walls(100)), lambda *_: None
    assert stage._confirm(stage._probe_alone(), [[100.0] * 10] * 3, 0.0).confirmed


@pytest.mark.parametrize(("host_us", "steady"), [(600.0, True), (800.0, False)])
def test_a_host_that_takes_longer_than_when_its_mode_was_chosen_makes_no_time(
    monkeypatch: pytest.MonkeyPatch, host_us: float, steady: bool
) -> None:
    """By our own clock: what a host does while its device is held is in no wall."""
    monkeypatch.setattr(stages, "agreement", lambda *_, **__: agreed(10.0, True))
    stage = stage_without_a_device("cuda", idle=True)
    stage._processes.bench.mode = "device"
    stage._hosts_us = [host_us] * 20
    stage._loops, stage._block = lambda *_: ([Walls(100)], Walls(100)), lambda *_: None
    stage._confirm(stage._probe_alone(), [[10.0] * 10] * 2, 0.0)
    judged = judge(stage._evidence).reason
    assert (judged.code != "device.unsteady") == steady
    assert steady or "its host took 800 us to launch a call" in judged.message


def test_calls_with_nothing_around_them_are_made_for_the_device_s_clock_whatever_the_others_are() -> None:
    made: list[dict[str, Any]] = []
    looked: list[str] = []

    def single(**how: Any) -> Any:
        made.append(how)
        return SimpleNamespace(early=False, wall_us=7.0)

    stage: Any = object.__new__(TimeStage)
    bench = SimpleNamespace(mode="host", best_mode="device", single=single, forget=lambda: None)
    stage._processes = Processes(bench)  # type: ignore[arg-type]
    stage._look_at = lambda _, which, name: looked.append(name)
    assert stage._bare([[1.0] * 20]) == [7.0] * 6
    assert made == [{"caches": "left", "mode": "device"}] * 6
    assert looked == ["timed0"] * 6


def test_the_clock_s_steps_are_those_of_the_clean_process() -> None:
    stage: Any = object.__new__(TimeStage)
    candidate, reference = SimpleNamespace(mode="device"), SimpleNamespace(mode="device")
    stage._baselines, stage._processes = {"reference": reference}, Processes(candidate)  # type: ignore[arg-type]
    stage._clean_us = [[1.504, 1.536, 1.568, 1.536] * 10, [2.0] * 40]
    plan = Plan(Goal(), {"candidate": 0.001, "reference": 0.001})
    plan.blocks["candidate"] = [[10.0, 10.5] * 10] * 6
    plan.blocks["reference"] = [[20.064, 20.0] * 10] * 6
    assert stage._step_us("candidate", plan) == pytest.approx(0.032)
    stage._clean_us = []
    assert stage._step_us("candidate", plan) == pytest.approx(0.064)
    reference.mode = "host"
    assert stage._step_us("candidate", plan) == 0.0
    candidate.mode = "host"
    stage._clean_us = [[1.504, 1.536] * 20]
    assert stage._step_us("candidate", plan) == 0.0


def test_no_figure_that_a_worker_may_say_is_too_much_for_an_interval() -> None:
    """Else a submission could have the grader itself fail."""
    said = {
        "type": "timed",
        "ticket": "",
        "outputs": [],
        "elapsed_us": [1e-300, 1e-5, 9e11],
        "host_us": [],
        "around_us": 0,
    }
    claim = claims.parse(said)
    assert isinstance(claim, claims.Timed)
    assert claim.elapsed_us == [0.0, 1e-5, 9e11]
    for low in (0.0, 1e-6):
        for few in (1, 2):
            blocks = [[low] * 5] * (few + 1) + [[9e11] * 5] * few
            assert not math.isnan(median_interval(blocks)[1])
            assert not math.isnan(ratio_interval([[1.0] * 5] * len(blocks), blocks)[1])
            assert not math.isnan(ratio_interval(blocks, [[1.0] * 5] * len(blocks))[1])


def test_a_single_call_whose_end_was_said_too_early_is_no_call() -> None:
    stage: Any = object.__new__(TimeStage)
    bench = SimpleNamespace(mode="device", best_mode="device", forget=lambda: None, worker=SimpleNamespace())
    bench.single = lambda *_, **__: SimpleNamespace(early=True, wall_us=7.0, elapsed_us=7.0, queued_us=50.0)
    stage._processes, stage._offsets, stage._queued_us = Processes(bench), {"device": SimpleNamespace(us=2.0)}, 0.0  # type: ignore[arg-type]
    for measure in (lambda: stage._bare([[1.0] * 20]), lambda: stage._block("candidate", 3, 1.0)):
        with pytest.raises(OutputChanged):
            measure()
