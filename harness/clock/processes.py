"""The submission's processes on the bench: one, or four where a call is so short that it matters in which it runs.

A driver puts a process's code, queues and clocks now here and now there, and for a kernel of 5 us that is one per cent
of its time or more, from the first call of a process to its last. Blocks are measured in the processes by turns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.clock.bench import Bench


class Processes:
    """All of the submission's; each of them is held still while another is measured, or a baseline."""

    def __init__(self, first: Bench) -> None:
        self._benches = [first]
        self._singles: list[list[tuple[float, float]]] = [[]]
        self._now = 0

    def __len__(self) -> int:
        return len(self._benches)

    @property
    def bench(self) -> Bench:
        """The one whose turn it is."""
        return self._benches[self._now]

    @property
    def singles(self) -> list[tuple[float, float]]:
        """Its single calls since the clocks were last read in the clean process: reading, offset taken off, and wall,
        microseconds."""
        return self._singles[self._now]

    @property
    def all_singles(self) -> list[list[tuple[float, float]]]:
        """The same of each process."""
        return self._singles

    def add(self, bench: Bench) -> None:
        """One more, timed as the first is."""
        bench.follow(self._benches[0])
        self._benches.append(bench)
        self._singles.append([])

    def turn(self, number: int) -> None:
        """Whose it is in block `number`."""
        self._now = number % len(self._benches)

    @contextlib.contextmanager
    def held(self, *, all_of_them: bool) -> Iterator[None]:
        """Hold the others still, or all."""
        with contextlib.ExitStack() as stack:
            for bench in self._benches:
                if all_of_them or bench is not self.bench:
                    stack.enter_context(bench.worker.stopped())
            yield
