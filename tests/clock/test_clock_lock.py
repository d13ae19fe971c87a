"""Clocks are locked, and let go of however a grading ends. The driver is a fake that keeps its state in a file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml import FakeClocks

from harness.clock.clock_lock import free_left_behind, locked_clocks

UUID = "GPU-1"
FREE = {"sm": None, "memory": None}
HOLD = f"""
import select
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in a shell's background
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from fake_nvml import FakeClocks
from harness.clock.clock_lock import locked_clocks
with locked_clocks("GPU-1", FakeClocks(Path(sys.argv[1]))) as lock:
    print(lock.locked, flush=True)
    # Not one long wait: a signal that comes just before it begins would not end it.
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture
def driver(tmp_path: Path) -> FakeClocks:
    return FakeClocks(tmp_path / "driver.json")


def journal(directory: Path) -> str:
    return (directory / "GPU-1.clocks").read_text()


def test_clocks_are_held_inside_and_free_afterwards(driver: FakeClocks, directory: Path) -> None:
    with locked_clocks(UUID, driver) as lock:
        assert lock.locked
        assert lock.message == "The SM clock is locked at the device's base clock, the memory clock at 3201 MHz."
        assert driver.state() == {"sm": "base", "memory": 3201}
        assert json.loads(journal(directory))["uuid"] == UUID
    assert driver.state() == FREE
    assert journal(directory) == ""
    assert driver.sessions == 0


def test_an_exception_lets_go_of_them(driver: FakeClocks, directory: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked_clocks(UUID, driver):
        raise KeyboardInterrupt
    assert driver.state() == FREE
    assert journal(directory) == ""


def test_a_device_that_does_not_know_its_base_clock_is_held_at_three_quarters(driver: FakeClocks) -> None:
    driver.knows_base = False
    with locked_clocks(UUID, driver) as lock:
        assert "1485 MHz" in lock.message
        assert driver.state()["sm"] == 1485


@pytest.mark.parametrize(
    ("error", "words"), [("NO_PERMISSION", "takes root"), ("NOT_SUPPORTED", "does not support it"), ("UNKNOWN", "999")]
)
def test_a_refusal_is_one_sentence_and_leaves_nothing_to_undo(
    driver: FakeClocks, directory: Path, error: str, words: str
) -> None:
    driver.refuse = {"nvmlDeviceSetGpuLockedClocks": error, "nvmlDeviceResetGpuLockedClocks": error}
    with locked_clocks(UUID, driver) as lock:
        assert not lock.locked
        assert words in lock.message
        assert lock.message.count(". ") == 0
    assert journal(directory) == ""
    assert free_left_behind(UUID, driver) is None


def test_a_memory_clock_that_cant_be_held_is_said(driver: FakeClocks) -> None:
    driver.refuse = {
        "nvmlDeviceSetMemoryLockedClocks": "NOT_SUPPORTED",
        "nvmlDeviceResetMemoryLockedClocks": "NOT_SUPPORTED",
    }
    with locked_clocks(UUID, driver) as lock:
        assert lock.locked
        assert lock.message.endswith("; the memory clock can't be.")
    assert driver.state() == FREE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_go_of_them(driver: FakeClocks, directory: Path, number: signal.Signals) -> None:
    with held_elsewhere(driver) as holder:
        assert driver.state()["sm"] == "base"
        holder.send_signal(number)
        assert holder.wait(60) != 0
    assert driver.state() == FREE
    assert journal(directory) == ""


def test_after_a_kill_the_next_one_lets_go_of_them(driver: FakeClocks, directory: Path) -> None:
    with held_elsewhere(driver) as holder:
        assert free_left_behind(UUID, driver) is None
        assert driver.state()["sm"] == "base"
        holder.kill()
        holder.wait()
    assert driver.state()["sm"] == "base"
    said = free_left_behind(UUID, driver)
    assert said == "A grading that was killed had left the device's clocks locked; they have been unlocked."
    assert driver.state() == FREE
    assert journal(directory) == ""
    assert free_left_behind(UUID, driver) is None


def test_the_next_one_that_locks_lets_go_of_them_as_well(driver: FakeClocks) -> None:
    with held_elsewhere(driver) as holder:
        holder.kill()
        holder.wait()
    with locked_clocks(UUID, driver):
        pass
    assert driver.state() == FREE
    assert free_left_behind(UUID, driver) is None


def test_who_may_not_unlock_says_what_to_do_and_leaves_it_to_others(driver: FakeClocks, directory: Path) -> None:
    with held_elsewhere(driver) as holder:
        holder.kill()
        holder.wait()
    may = driver.refuse
    driver.refuse = dict.fromkeys(["nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"], "NO_PERMISSION")
    said = free_left_behind(UUID, driver)
    assert said is not None
    assert "nvidia-smi --reset-gpu-clocks" in said
    with locked_clocks(UUID, driver) as lock:
        assert not lock.locked
    assert journal(directory)
    driver.refuse = may
    assert free_left_behind(UUID, driver) is not None
    assert driver.state() == FREE


def test_two_do_not_hold_one_devices_clocks(driver: FakeClocks) -> None:
    with locked_clocks(UUID, driver), locked_clocks(UUID, driver) as second:
        assert second.message == "The clocks can't be locked: another grading holds them."
    assert driver.state() == FREE


@pytest.mark.parametrize("uuid", [None, "GPU-2"])
def test_other_devices_are_left_alone(driver: FakeClocks, uuid: str | None) -> None:
    with locked_clocks(uuid, driver) as lock:
        assert not lock.locked
        assert lock.message.startswith("The clocks can't be locked: ")
    assert driver.calls == 0
    assert free_left_behind(uuid, driver) is None


def test_without_a_driver_it_says_so(driver: FakeClocks) -> None:
    driver.refuse = {"nvmlInit": "UNKNOWN"}
    with locked_clocks(UUID, driver) as lock:
        assert "does not answer" in lock.message


def test_without_a_journal_nothing_is_locked(driver: FakeClocks, directory: Path) -> None:
    (directory / "GPU-1.clocks").mkdir(parents=True)
    with locked_clocks(UUID, driver) as lock:
        assert not lock.locked
        assert "no writing down" in lock.message
    assert driver.calls == 0


def held_elsewhere(driver: FakeClocks) -> subprocess.Popen[bytes]:
    """Another process that holds the clocks."""
    command = [sys.executable, "-c", HOLD, str(driver.path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"True\n"
    return holder
