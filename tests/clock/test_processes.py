"""The submission's processes by turns. Benches are stand-ins here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from harness.clock.processes import Processes


class _Bench:
    def __init__(self, mode: str = "device") -> None:
        self.mode, self.still = mode, 0
        self.worker = self

    def follow(self, first: _Bench) -> None:
        self.mode = first.mode

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        self.still += 1
        yield
        self.still -= 1


def test_by_turns_with_figures_of_their_own_while_the_others_are_held() -> None:
    first, second = _Bench(), _Bench()
    processes: Any = Processes(first)  # type: ignore[arg-type]
    processes.turn(5)
    assert processes.bench is first
    processes.add(second)
    seen = []
    for number in range(4):
        processes.turn(number)
        processes.singles.append((float(number), 0.0))
        with processes.held(all_of_them=False):
            seen.append((processes.bench is second, first.still, second.still))
    assert seen == [(False, 0, 1), (True, 1, 0)] * 2
    assert processes.singles == [(1.0, 0.0), (3.0, 0.0)]
    with processes.held(all_of_them=True):
        assert (first.still, second.still) == (1, 1)
    assert (first.still, second.still) == (0, 0)


def test_all_are_timed_in_one_way() -> None:
    first, second = _Bench("host"), _Bench("device")
    Processes(first).add(second)  # type: ignore[arg-type]
    assert (first.mode, second.mode) == ("host", "host")
