"""One side's worker on the bench: single calls and batches of it, timed, with outputs looked at afterwards."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.claims import Output
from harness.clock.outside import Estimate, estimate, slope
from harness.compare import FormError, check_form, compare
from harness.oracle import Oracle
from harness.report import LeafReport
from harness.seeds import Seeds
from harness.workers import Loop, Worker

_QUEUE_US = 250.0
"""Idling queued before a single call, besides the write that empties L2: what a host may take to launch a call."""
_QUEUE_MIN_US = 50.0
"""The same between the calls of a batch, where the host can be ahead by more than one call."""
_QUEUE_MARGIN = 1.3
"""A batch queues this much more than the host was seen to need."""
_LONGER, _WAITED_US, _WAITED_SHARE = 8.0, 20.0, 0.2
"""A queue so many times as long that shortens a call by this much shows that the device had waited for the host."""
REPEATS = 7
"""Walls of each length that a slope is made from."""
_FEW = 5
"""Turns for a first guess."""


@dataclass(frozen=True)
class Sample:
    """One timed call, and what it takes to make its expected output."""

    elapsed_us: float
    host_us: float
    inputs_seed: int
    call_seed: int
    output: Output


@dataclass(frozen=True)
class Batches:
    """Batches of n and 2n calls, timed from both sides."""

    turn: Estimate
    """The wall time of a turn, microseconds."""
    inside: Estimate
    """The mean inside reading of a call, microseconds."""
    calls: int
    """Calls of all batches."""


class Bench:
    """A worker with a model that is ready to be called."""

    def __init__(
        self, worker: Worker, oracle: Oracle, seeds: Seeds, numbers: Iterator[int], *, call_limit_s: float
    ) -> None:
        self._worker = worker
        self._oracle = oracle
        self._seeds = seeds
        self._numbers = numbers
        self._limit_s = call_limit_s
        self.mode: Literal["device", "host"] = "device" if worker.torch_device.type == "cuda" else "host"
        self.queue_us = _QUEUE_MIN_US
        """Queued before each call of a batch; empty loops that it is held against must queue the same."""

    @property
    def loop(self) -> Loop:
        """A loop of this side's mode, without turns yet."""
        return Loop(turns=0, mode=self.mode, queue_us=self.queue_us, restore_buffers=self._oracle.buffers_move)

    def empty_turn_us(self) -> float:
        """About what one turn without a call takes, microseconds of wall clock."""
        loop = replace(self.loop, turns=_FEW, empty=_FEW, queue_us=0.0, restore_buffers=False)
        walls = [self._worker.time(loop, self._limit_s) for _ in range(2)]
        self._worker.times(loop)
        return min(walls) / _FEW * 1e6

    def choose_mode(self, flush_us: float) -> None:
        """Let first calls do what first calls do; then device mode where the host keeps ahead of the device in it.

        `flush_us` is the time of an empty turn: what is queued hides that and no more of the host's side.
        """
        self.single()
        if self.mode == "device":
            behind = [self.single() for _ in range(3)]
            host_us = statistics.median(sample.host_us for sample in behind)
            elapsed_us = statistics.median(sample.elapsed_us for sample in behind)
            # The host's own figure is not all: a call that gets shorter behind a longer queue was waiting for the host.
            longer_us = statistics.median(self.single(queue_us=_LONGER * _QUEUE_US).elapsed_us for _ in range(3))
            waited = elapsed_us - longer_us > max(_WAITED_US, _WAITED_SHARE * elapsed_us)
            if host_us > _QUEUE_US + flush_us or waited:
                self.mode = "host"
                self.single()
            else:
                self.queue_us = max(_QUEUE_MIN_US, _QUEUE_MARGIN * host_us)
        self.forget()

    def put_fresh(self, count: int = 1) -> list[tuple[int, int]]:
        """Send that many fresh inputs; returns the seeds of each, of its inputs and of its call."""
        seeds = [
            (self._seeds.of("timed inputs", number), self._seeds.of("timed call", number))
            for number in itertools.islice(self._numbers, count)
        ]
        pool = self._oracle.pool([inputs for inputs, _ in seeds])
        self._worker.put("pool", tuple(tuple(inputs) for inputs in pool))
        return seeds

    def single(self, seeds: tuple[int, int] | None = None, *, queue_us: float = _QUEUE_US) -> Sample:
        """One call, on an input that is made now unless `seeds` says that it is there already."""
        inputs_seed, call_seed = seeds or self.put_fresh()[0]
        loop = replace(
            self.loop,
            turns=1,
            inputs="pool",
            seeds=self._call_seeds([call_seed]),
            queue_us=queue_us,
        )
        self._worker.time(loop, self._limit_s)
        timed = self._worker.times(loop, "timed")
        return Sample(timed.elapsed_us[0], timed.host_us[0], inputs_seed, call_seed, timed.outputs[0])

    def batches(self, turns: int, repeats: int, look: Callable[[list[Sample]], None]) -> Batches:
        """Batches of `turns` and twice as many calls, every one on an input of its own.

        `look` gets the calls of each longer batch, whose outputs the worker holds as `batch0`, `batch1`, ...
        """
        once: list[float] = []
        twice: list[float] = []
        inside: list[float] = []
        self._batch(2 * turns, None)  # memory for outputs is found now, not in a wall
        for _ in range(repeats):
            once.append(self._batch(turns, inside))
            twice.append(self._batch(2 * turns, inside, look))
        return Batches(slope(once, twice, turns), estimate(inside), repeats * 3 * turns)

    def walls(self, turns: int, *, probe: bool = False) -> tuple[Estimate, Estimate]:
        """The same with empty turns or probes: the wall time of a turn and the mean inside reading."""
        once: list[float] = []
        twice: list[float] = []
        inside: list[float] = []
        for _ in range(REPEATS):
            for count, walls in ((turns, once), (2 * turns, twice)):
                loop = replace(
                    self.loop,
                    turns=count,
                    empty=0 if probe else count,
                    probe=count if probe else 0,
                    restore_buffers=False,
                )
                walls.append(self._worker.time(loop, self._limit_s))
                inside.append(statistics.fmean(self._worker.times(loop).elapsed_us))
        return slope(once, twice, turns), estimate(inside)

    def look_at(
        self, sample: Sample, which: Literal["early", "live"], name: str, number: int
    ) -> FormError | list[LeafReport]:
        """Compare an output that the worker still holds with what the reference gives for the same input."""
        expected = self._oracle.expected(
            sample.inputs_seed, sample.call_seed, restore_buffers=self._oracle.buffers_move
        )
        output = sample.output
        if error := check_form(expected, output.value, output.leaves, self._worker.torch_device.type):
            return error
        return compare(expected, self._worker.fetch(name, which, expected.specs), number)

    def forget(self) -> None:
        """Drop the output of the last single call."""
        self._worker.drop(["timed0"])

    def seconds_of_a_call(self) -> float:
        """Seconds that one single call takes with everything around it."""
        began = time.monotonic()
        self.single()
        self.forget()
        return time.monotonic() - began

    def _batch(
        self, turns: int, inside: list[float] | None, look: Callable[[list[Sample]], None] | None = None
    ) -> float:
        seeds = self.put_fresh(turns)
        loop = replace(self.loop, turns=turns, inputs="pool", seeds=self._call_seeds([call for _, call in seeds]))
        wall = self._worker.time(loop, self._limit_s * turns)
        timed = self._worker.times(loop, "batch")
        if look is not None:
            columns = zip(timed.elapsed_us, timed.host_us, seeds, timed.outputs, strict=True)
            look([Sample(elapsed, host, *pair, output) for elapsed, host, pair, output in columns])
        self._worker.drop([f"batch{turn}" for turn in range(turns)])
        if inside is not None:
            inside.append(statistics.fmean(timed.elapsed_us))
        return wall

    def _call_seeds(self, seeds: Sequence[int]) -> tuple[int, ...]:
        return tuple(seeds) if self._oracle.draws else ()
