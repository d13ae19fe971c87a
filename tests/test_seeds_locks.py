"""Seeds of a grading, and the lock of a device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.locks import DeviceLock
from harness.seeds import Seeds


def test_no_secret_seed_before_the_submission_is_constructed() -> None:
    seeds = Seeds()
    seeds.parameters()
    with pytest.raises(RuntimeError):
        seeds.of("inputs", 0)
    assert seeds.number is None


def test_a_number_repeats_a_grading() -> None:
    first = Seeds()
    first.draw()
    assert first.number is not None
    again = Seeds(first.number)
    again.draw()
    assert again.parameters() == first.parameters()
    assert [again.of("inputs", i) for i in range(5)] == [first.of("inputs", i) for i in range(5)]
    assert again.number == first.number


def test_seeds_differ_by_purpose_index_and_grading() -> None:
    one, two = Seeds(), Seeds()
    one.draw()
    two.draw()
    found = {seeds.of(purpose, index) for seeds in (one, two) for purpose in ("a", "b") for index in range(50)}
    assert len(found) == 200
    assert all(0 <= seed < 1 << 63 for seed in found)


def test_parameters_do_not_depend_on_the_secret_half() -> None:
    assert Seeds((5 << 64) | 1).parameters() == Seeds((5 << 64) | 2).parameters()


HOLD = """
import sys, time
from harness.locks import DeviceLock
with DeviceLock("GPU-test").held():
    print("held", flush=True)
    time.sleep(100)
"""


def test_a_lock_holds_between_processes_and_goes_with_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path))
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, env=dict(os.environ))
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    waited: list[int] = []

    def end_the_holder() -> None:
        waited.append(1)
        holder.send_signal(signal.SIGKILL)

    with DeviceLock("GPU-test", end_the_holder).held():
        assert waited == [1]
    holder.wait()
    holder.stdout.close()


def test_a_paused_lock_is_free_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path))
    waited: list[int] = []
    one, other = DeviceLock("x"), DeviceLock("x", lambda: waited.append(1))
    with one.held(), one.paused(), other.held():
        pass
    with one.paused():
        pass
    assert not waited
