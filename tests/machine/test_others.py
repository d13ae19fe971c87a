"""What others take of the processors: their work counts, and ours does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.machine import others
from harness.machine.others import Others

SPINS = "import time\nuntil = time.process_time() + {seconds}\nwhile time.process_time() < until: pass"


def test_own_work_and_that_of_descendants_is_not_others() -> None:
    began = others._ours_s()
    subprocess.run([sys.executable, "-c", SPINS.format(seconds=0.4)], check=True)
    assert others._ours_s() - began >= 0.35


def test_the_share_is_of_the_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus = len(os.sched_getaffinity(0))
    clock, busy, ours = iter([10.0, 12.0]), iter([100.0, 100.0 + 1.5 * cpus]), iter([7.0, 7.0 + 0.5 * cpus])
    monkeypatch.setattr(others.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(others, "_busy_s", lambda: next(busy))
    monkeypatch.setattr(others, "_ours_s", lambda: next(ours))
    assert Others().share() == pytest.approx(0.5)


@pytest.mark.parametrize(("busy", "ours"), [(0.0, 5.0), (1e9, 0.0)])
def test_the_share_stays_one_whatever_the_counters_say(
    monkeypatch: pytest.MonkeyPatch, busy: float, ours: float
) -> None:
    readings = iter([0.0, busy, 0.0, ours])
    monkeypatch.setattr(others, "_busy_s", lambda: next(readings))
    monkeypatch.setattr(others, "_ours_s", lambda: next(readings))
    assert 0.0 <= Others().share() <= 1.0
