"""What is found wrong with a device, by a fake one. No GPU, no waiting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.clock.health import DeviceProbe, KernelRun, UsualTimes, findings_after, findings_before
from harness.clock.readings import CpuSource, Process, Reading
from harness.report import Warning_


class FakeDevice:
    """Says and runs what it was told; the last reading stays."""

    def __init__(self, *readings: Reading, run: KernelRun | None = None) -> None:
        self.readings = list(readings) or [Reading(utilisation=0.0)]
        self.run = run or KernelRun(True, 35.0)

    def reading(self) -> Reading:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]

    def kernel(self) -> KernelRun:
        return self.run


@pytest.fixture
def usual(tmp_path: Path) -> UsualTimes:
    return UsualTimes(tmp_path / "cache" / "health.json")


@pytest.fixture
def look(usual: UsualTimes) -> Callable[[FakeDevice], list[Warning_]]:
    return lambda device: findings_before(device, usual, "GPU-1", sleep=lambda _: None)


Look = Callable[[FakeDevice], list[Warning_]]


def codes(found: list[Warning_]) -> list[str]:
    return [warning.code for warning in found]


def test_a_fit_device_gives_no_warning_and_its_time_is_remembered(look: Look, usual: UsualTimes) -> None:
    assert look(FakeDevice()) == []
    assert usual.of("GPU-1") == [35.0]
    assert usual.of("GPU-2") == []


def test_the_work_of_the_grading_before_is_waited_out(look: Look) -> None:
    assert look(FakeDevice(Reading(utilisation=0.9), Reading(utilisation=0.3), Reading(utilisation=0.0))) == []


def test_a_device_that_stays_busy_is_found(look: Look, usual: UsualTimes) -> None:
    found = look(FakeDevice(Reading(utilisation=0.9), Reading(utilisation=0.4), Reading(utilisation=0.6)))
    assert codes(found) == ["device.busy"]
    assert "40 %" in found[0].message
    assert usual.of("GPU-1") == []


def test_others_on_it_are_named(look: Look) -> None:
    others = tuple(Process(pid, "python") for pid in range(1, 8))
    found = look(FakeDevice(Reading(utilisation=0.0, other_processes=others)))
    assert codes(found) == ["device.shared"]
    assert "python (pid 1)" in found[0].message
    assert len(found[0].evidence["processes"]) == 7


def test_a_device_that_says_nothing_is_taken_for_fit(look: Look) -> None:
    assert look(FakeDevice(Reading())) == []


def test_a_wrong_answer_is_found_and_its_time_is_not_usual(look: Look, usual: UsualTimes) -> None:
    assert codes(look(FakeDevice(run=KernelRun(False, 35.0)))) == ["device.wrong_answer"]
    assert usual.of("GPU-1") == []


@pytest.mark.parametrize(("us", "slow"), [(35.0, False), (36.5, False), (37.5, True), (20.0, False)])
def test_what_is_too_slow_comes_from_what_is_usual(look: Look, usual: UsualTimes, us: float, slow: bool) -> None:
    for each in (34.9, 35.0, 35.0, 35.1, 35.2):
        usual.add("GPU-1", each)
    found = look(FakeDevice(run=KernelRun(True, us)))
    assert codes(found) == (["device.slow"] if slow else [])
    assert len(usual.of("GPU-1")) == (5 if slow else 6)


def test_a_device_whose_times_move_is_given_more_room(look: Look, usual: UsualTimes) -> None:
    for each in (30.0, 35.0, 40.0, 33.0, 37.0):
        usual.add("GPU-1", each)
    assert look(FakeDevice(run=KernelRun(True, 50.0))) == []


def test_a_new_device_has_nothing_usual(look: Look, usual: UsualTimes) -> None:
    for each in (35.0, 35.0, 35.0, 35.0):
        usual.add("GPU-1", each)
    assert look(FakeDevice(run=KernelRun(True, 350.0))) == []


def test_old_times_are_forgotten(usual: UsualTimes) -> None:
    for each in range(50):
        usual.add("GPU-1", float(each))
    assert usual.of("GPU-1") == [float(each) for each in range(20, 50)]


@pytest.mark.parametrize("text", ["", "no json", "[1, 2]", '{"GPU-1": 5}', '{"GPU-1": ["x", null, 3.5]}'])
def test_a_broken_cache_is_an_empty_one(usual: UsualTimes, text: str) -> None:
    usual.path.parent.mkdir()
    usual.path.write_text(text)
    assert usual.of("GPU-1") in ([], [3.5])
    usual.add("GPU-1", 1.0)
    assert usual.of("GPU-1")[-1] == 1.0


def test_a_cache_that_cant_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    UsualTimes(tmp_path / "file" / "health.json").add("GPU-1", 1.0)


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [(1 << 30, (1 << 30) + (8 << 20), False), (1 << 30, 2 << 30, True), (None, 2 << 30, False), (1 << 30, None, False)],
)
def test_memory_that_did_not_come_back_is_found(before: int | None, after: int | None, kept: bool) -> None:
    found = findings_after(FakeDevice(Reading(memory_used_bytes=after)), before)
    assert codes(found) == (["device.memory_kept"] if kept else [])


def test_the_known_kernel_is_right_on_a_cpu() -> None:
    run = DeviceProbe(torch.device("cpu"), CpuSource()).kernel()
    assert run.right
    assert run.us > 0


def test_a_device_that_adds_wrongly_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    turn, turned = torch.Tensor.bitwise_xor_, []

    def faulty(self: torch.Tensor, mask: int) -> torch.Tensor:
        turn(self, mask)
        if not turned:
            self[123] += 1
        turned.append(mask)
        return self

    monkeypatch.setattr(torch.Tensor, "bitwise_xor_", faulty)
    assert not DeviceProbe(torch.device("cpu"), CpuSource()).kernel().right


@pytest.mark.gpu
def test_the_known_kernel_is_right_on_a_gpu() -> None:
    from harness.clock.readings import source_of
    from harness.machine.device import open_device

    device = open_device("cuda")
    with source_of("cuda", device.uuid) as source:
        assert DeviceProbe(torch.device(device.torch_name), source).kernel().right
