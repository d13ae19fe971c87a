"""Who gets a compiler slot next."""

from __future__ import annotations

import fcntl
import threading
import time
from pathlib import Path

import pytest

from harness.build import jobs
from harness.build.jobs import Slots


def test_a_neighbour_of_many_compilers_waits_for_few_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many, one = Slots(tmp_path, 1), Slots(tmp_path, 1)
    order: list[Slots] = []
    asked = threading.Event()

    def flock(descriptor: int, how: int) -> None:
        if threading.current_thread().name == "one":
            asked.set()
        fcntl.flock(descriptor, how)

    def compiles(slots: Slots) -> None:
        with slots.take():
            order.append(slots)
            time.sleep(0.01)

    threads = [threading.Thread(target=compiles, args=[many]) for _ in range(30)]
    last = threading.Thread(target=compiles, args=[one], name="one")
    monkeypatch.setattr(jobs, "fcntl", _Fcntl(flock))
    with many.take():
        for thread in threads:
            thread.start()
        while not many._ours.locked():
            time.sleep(0.01)
        last.start()
        assert asked.wait(60)
        time.sleep(0.3)  # until the kernel has it in the line
        assert not order
    for thread in (*threads, last):
        thread.join(60)
    assert len(order) == 31
    # One of the many stood there before it; the rest of the room is for a machine that is slow to ask.
    assert order.index(one) <= 8


def test_all_slots_are_handed_out_and_come_back(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 3)
    for _ in range(2):
        with slots.take(), slots.take(), slots.take():
            assert slots._try() is None
            # Who may use more has a line of its own.
            with Slots(tmp_path, 4).take():
                pass


class _Fcntl:
    LOCK_EX, LOCK_NB = fcntl.LOCK_EX, fcntl.LOCK_NB

    def __init__(self, flock: object) -> None:
        self.flock = flock
