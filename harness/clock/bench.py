"""One side's worker on the bench: single calls and batches of it, timed, with outputs looked at afterwards."""

from __future__ import annotations

import itertools
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from harness.check.compare import FormError, check_form, compare
from harness.check.oracle import Oracle
from harness.clock.outside import Walls
from harness.report import LeafReport
from harness.seeds import Seeds
from harness.wire.digest import WORDS, Passing, seal
from harness.wire.mask import masked
from harness.wire.transfer import TensorSpec, flat_bytes, in_index_order
from harness.workers.claims import Output
from harness.workers.loop import Loop
from harness.workers.worker import Worker, WorkerFailure

QUEUE_US = 600.0
"""Idling queued before a single call, besides the write that empties L2: within it the host takes the mask off its
inputs, launches it, and queues the hash of its output, so that it is in no wall how quick this host is."""
LONGER_QUEUE_US = 900.0
"""The same in a further try of the outside clock: a process whose host is slow stays slow. On an H200 the host of one
process in eighty took 0.9 ms for all of this."""
_HIDDEN_US = 250.0
"""What a host may take to launch a call that is timed by the device's clock; a slower one is part of the time."""
_PACE_QUEUE_US = 250.0
"""Idling in a loop that shows how long the host takes for a turn."""
_QUEUE_MIN_US = 40.0
"""The same between the calls of a batch, at the least: by then the host is ahead."""
_QUEUE_MAX_US = 2000.0
"""And at the most: what a host needs for a turn is the worker's word, and loops of the clean process idle as long."""
_QUEUE_MARGIN = 1.7
"""A batch idles so many times as long as the host was seen to need for a turn, digests and all: a device that waits for
the host shows the host's time and not its own, and a host that is quick now may be half as quick in the next loop."""
_AT_LEAST = 0.6
"""Of the idling queued before a call, to be sure that it takes no less: it counts cycles, of 2 GHz."""
_MOST_BYTES_PER_US = 10e6
"""No GPU writes more."""
_LONG_US = 500.0
"""A call that takes longer keeps the device busy while the host queues the next turn."""
_LONGER, _WAITED_US, _WAITED_SHARE = 4.0, 20.0, 0.2
"""A queue so many times as long that shortens a call by this much shows that the device had waited for the host."""
_FEW, _SOME = 5, 20
"""Turns for a first guess, and for what a host needs for a turn: in fewer it is slower."""
_FOUND_BYTES = 1 << 30
"""Outputs of a loop for which the worker finds memory anyway, as it fills that before the loop begins."""
_FIRST = 3
"""Calls after which a process is as quick as it will be, where another has shown how it is to be timed."""
_BATCH_MEMORY = 0.1
"""Share of the device's free memory that the inputs and outputs of a batch may take."""
_KEY_BITS = 62
_LIMIT_S = 60.0
"""For loops without calls of the submission."""

Own = Literal["empty", "null", "probe"]


@dataclass(frozen=True)
class Sample:
    """One timed call, and what it takes to make its expected output."""

    elapsed_us: float
    host_us: float
    wall_us: float
    """By our own clock, from the order to begin to the answer that it has ended; 0 for a call in a loop."""
    inputs_seed: int
    call_seed: int
    output: Output
    seal: str = ""
    """Of a single call: what the worker said at its end."""
    root: torch.Tensor | None = None
    """Of a call in a loop: the hash of its output as it was sealed when the loop ended, [2] int64."""


def readings_alone(worker: Worker, loop: Loop, count: int) -> list[float]:
    """What the worker's clock reads in each of `count` loops of one turn, with a call of our own or none."""
    readings = []
    for _ in range(count):
        worker.time(loop, _LIMIT_S)
        readings += worker.times(loop).elapsed_us
    return readings


class Bench:
    """A worker with a model that is ready to be called."""

    def __init__(
        self, worker: Worker, oracle: Oracle, seeds: Seeds, numbers: Iterator[int], *, call_limit_s: float
    ) -> None:
        self.worker = worker
        self._oracle = oracle
        self._seeds = seeds
        self._numbers = numbers
        self._limit_s = call_limit_s
        self.mode: Literal["device", "host"] = "device" if worker.torch_device.type == "cuda" else "host"
        self.queue_us = _QUEUE_MIN_US
        """Queued before each call of a batch; loops that it is held against must queue the same."""
        self.single_queue_us = QUEUE_US
        """The same before a single call."""

    @property
    def loop(self) -> Loop:
        """A loop of this side's mode, without turns yet."""
        return Loop(
            turns=0,
            mode=self.mode,
            queue_us=self.queue_us,
            specs=tuple(self._oracle.output_specs),
            restore_buffers=self._oracle.buffers_move,
        )

    def empty_turns_us(self) -> float:
        """What one turn without a call takes, microseconds of wall clock, with nothing queued."""
        loop = replace(self.loop, turns=_FEW, kind="empty", specs=(), queue_us=0.0, restore_buffers=False)
        return self.worker.time(loop, _LIMIT_S).wall_s / _FEW * 1e6

    def choose_mode(self, flush_us: float, *, batches: bool) -> float:
        """Let first calls do what first calls do; then device mode where the host keeps ahead of the device in it.

        `flush_us` is the time of an empty turn: what is queued hides that and no more of the host's side. `batches`:
        whether there will be some, for which the host's pace has to be known. Returns the reading of a call,
        microseconds, in which nothing has been taken off yet.
        """
        elapsed_us = self.single().elapsed_us
        if self.mode == "device":
            behind = [self.single() for _ in range(3)]
            host_us = statistics.median(sample.host_us for sample in behind)
            elapsed_us = statistics.median(sample.elapsed_us for sample in behind)
            # The host's own figure is not all: a call that gets shorter behind a longer queue was waiting for the host.
            longer_us = statistics.median(self.single(longer=_LONGER).elapsed_us for _ in range(3))
            waited = elapsed_us - longer_us > max(_WAITED_US, _WAITED_SHARE * elapsed_us)
            if host_us > _HIDDEN_US + flush_us or waited:
                self.mode = "host"
                self.single()
            elif batches and elapsed_us < _LONG_US:
                # Of the first loop something is slow; in the second the host is what it will be.
                self.queue_us = _PACE_QUEUE_US
                turns = self.fitting(_SOME)
                self.find_memory(turns)
                self.queue_us = _queue_us(self._batch(turns, None) / (turns - 1), flush_us + elapsed_us)
        self.forget()
        return elapsed_us

    def follow(self, first: Bench) -> None:
        """Let first calls do what first calls do, and be timed as another process of the same submission is."""
        self.mode, self.queue_us = first.mode, first.queue_us
        for _ in range(_FIRST):
            self.single()
        self.forget()

    def probe_queue_us(self, flush_us: float) -> float:
        """What loops of the probe have to idle between calls for this process's host to keep ahead."""
        loop = self._probes(self.fitting(_SOME), "device", _PACE_QUEUE_US)
        for _ in range(2):  # the first finds memory
            self.worker.time(loop, _LIMIT_S, turn_us=self._turn_us(loop))
            timed = self.worker.times(loop)
        busy_us = flush_us + statistics.median(timed.elapsed_us)
        return _queue_us(timed.launched_us / (loop.turns - 1), busy_us)

    def _probes(self, turns: int, mode: Literal["device", "host"], queue_us: float) -> Loop:
        """A loop of the probe."""
        own = replace(self.loop, kind="probe", sealed=True, restore_buffers=False)
        return replace(own, turns=turns, mode=mode, queue_us=queue_us)

    def _turn_us(self, loop: Loop) -> float:
        """What a turn takes at the least."""
        if loop.mode == "host":
            return 0.0
        return _AT_LEAST * loop.queue_us + self.worker.flush_bytes / _MOST_BYTES_PER_US

    def fitting(self, turns: int) -> int:
        """So many turns of a batch, or as many as there is memory for; at least two."""
        if self.worker.torch_device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.worker.torch_device)
            turns = min(turns, int(_BATCH_MEMORY * free / max(1, self._oracle.call_bytes)))
        return max(2, turns)

    def put_fresh(self, count: int = 1, *, key: int | None = None) -> list[tuple[int, int]]:
        """Send that many fresh inputs, under the mask of `key`; returns the seeds of each, of its inputs and call."""
        seeds = [
            (self._seeds.of("timed inputs", number), self._seeds.of("timed call", number))
            for number in itertools.islice(self._numbers, count)
        ]
        pool = tuple(tuple(inputs) for inputs in self._oracle.pool([inputs for inputs, _ in seeds]))
        self.worker.put("pool", pool if key is None else masked(pool, key))
        return seeds

    def single(self, seeds: tuple[int, int] | None = None, *, longer: float = 1.0, warm: bool = False) -> Sample:
        """One call, on an input that is made now unless `seeds` says that it is there already. `longer`: how many times
        as long as usual the device idles before it."""
        key = None if seeds else secrets.randbits(_KEY_BITS)
        inputs_seed, call_seed = seeds or self.put_fresh(key=key)[0]
        loop = replace(
            self.loop,
            turns=1,
            inputs="pool",
            seeds=self._call_seeds([call_seed]),
            queue_us=longer * self.single_queue_us,
            warm=warm,
            sealed=seeds is None,
        )
        ran = self.worker.time(loop, self._limit_s * (2 if warm else 1), key)
        timed = self.worker.times(loop, "timed")
        return Sample(
            timed.elapsed_us[0],
            timed.host_us[0],
            ran.wall_s * 1e6,
            inputs_seed,
            call_seed,
            timed.outputs[0],
            ran.seal,
        )

    def own_singles(self, kind: Own, count: int) -> list[float]:
        """Readings of single turns with a call of our own: what the clock says in just the way it does for `single`."""
        loop = replace(self.loop, turns=1, kind=kind, queue_us=self.single_queue_us, restore_buffers=False)
        return readings_alone(self.worker, loop, count)

    def probe_singles(self, count: int) -> tuple[list[float], list[float]]:
        """Readings and walls, microseconds, of copies of tensors like the outputs, in just the way of `single`."""
        loop = replace(self._probes(1, self.mode, self.single_queue_us), inputs="pool")
        readings, walls = [], []
        for _ in range(count):
            key = secrets.randbits(_KEY_BITS)
            self.put_fresh(key=key)  # as before each call: what that leaves in the host's caches is part of a wall
            ran = self.worker.time(loop, _LIMIT_S, key)
            readings += self.worker.times(loop).elapsed_us
            walls.append(ran.wall_s * 1e6)
        return readings, walls

    def find_memory(self, turns: int) -> None:
        """Calls that are not looked at: what the first loop of so many turns has to find, memory for its outputs above
        all, is found now, not in a wall."""
        self._batch(2 if turns * self._oracle.output_bytes <= _FOUND_BYTES else turns, None)

    def loops(self, walls: Walls, look: Callable[[list[Sample]], None]) -> None:
        """A batch of each length, every call on an input of its own. Raises OutputChanged for a loop that was said to
        have ended before its device had.

        `look` gets the calls of the long one, whose outputs the worker holds as `batch0`, `batch1`, ...
        """
        for turns, marked in walls.lengths:
            self._batch(turns, walls, look if turns == walls.long else None, marked=marked)

    def probe_loops(self, walls: Walls, mode: Literal["device", "host"], queue_us: float) -> None:
        """The same with the probe, as another process does it."""
        for turns, marked in walls.lengths:
            loop = replace(self._probes(turns, mode, queue_us), marked=marked)
            ran = self.worker.time(loop, _LIMIT_S, turn_us=self._turn_us(loop))
            if ran.early:
                raise WorkerFailure("protocol", "call", "the marks of a loop of our own came after its end")
            timed = self.worker.times(loop)
            walls.add(ran.wall_s, ran.span_s, timed.elapsed_us, timed.around_us)

    def look_at(
        self, sample: Sample, which: Literal["early", "live"], name: str, number: int
    ) -> FormError | list[LeafReport]:
        """Compare an output that the worker still holds with what the reference gives for the same input.

        Raises OutputChanged where it is not the output that the worker had when its loop ended.
        """
        expected = self._oracle.expected(
            sample.inputs_seed, sample.call_seed, restore_buffers=self._oracle.buffers_move
        )
        output = sample.output
        if error := check_form(expected, output.value, output.leaves, self.worker.torch_device.type):
            return error
        strides = [None if claim.strides is None else (*claim.strides,) for claim in output.leaves]
        specs = [replace(spec, strides=own) for spec, own in zip(expected.specs, strides, strict=True)]
        if not all(spec.is_dense for spec in specs):
            raise WorkerFailure("protocol", "fetch", "an output was said to lie in memory as no tensor does")
        passing = Passing(self.worker.hasher, specs)
        pieces = passing.through(self.worker.fetch(name, which, specs, stored=True))
        found = compare(expected, in_index_order(pieces, specs, self.worker.torch_device), number)
        # Of wrong values it is enough to say that they are wrong.
        if all(leaf.ok for leaf in found):
            root = passing.root()
            same = seal(root).hex() == sample.seal if sample.root is None else torch.equal(root, sample.root)
            if not same:
                raise OutputChanged
        return found

    def forget(self) -> None:
        """Drop the output of the last single call."""
        self.worker.drop(["timed0"])

    def seconds_of_a_call(self) -> float:
        """Seconds that one single call takes with everything around it."""
        began = time.monotonic()
        self.single()
        self.forget()
        return time.monotonic() - began

    def _batch(
        self,
        turns: int,
        walls: Walls | None,
        look: Callable[[list[Sample]], None] | None = None,
        *,
        marked: int = 0,
    ) -> float:
        """Run one; what the host took to queue all turns but the first, microseconds."""
        seeds = self.put_fresh(turns)
        calls = self._call_seeds([call for _, call in seeds])
        loop = replace(self.loop, turns=turns, inputs="pool", sealed=True, seeds=calls, marked=marked)
        ran = self.worker.time(loop, self._limit_s * turns, turn_us=self._turn_us(loop))
        timed = self.worker.times(loop, "batch")
        if ran.early:
            # When that was said, nobody had computed its outputs.
            raise OutputChanged
        if walls is not None:
            walls.add(ran.wall_s, ran.span_s, timed.elapsed_us, timed.around_us)
            walls.copied |= any(leaf.copied for output in timed.outputs for leaf in output.leaves)
        if look is not None:
            roots = self._sealed_roots(turns, ran.seal)
            columns = zip(timed.elapsed_us, timed.host_us, seeds, timed.outputs, roots, strict=True)
            look([Sample(elapsed, host, 0.0, *pair, output, "", row) for elapsed, host, pair, output, row in columns])
        self.worker.drop([f"batch{turn}" for turn in range(turns)])
        return timed.launched_us

    def _sealed_roots(self, turns: int, given: str) -> torch.Tensor:
        """The hash of every output of the last loop, [turns, 2] int64, as they were when the seal was put on."""
        spec = TensorSpec("int64", (turns, WORDS))
        roots = torch.empty(spec.shape, dtype=torch.int64)
        flat = flat_bytes(roots)
        for _, first, data in self.worker.fetch("roots", "live", [spec]):
            flat[first : first + data.numel()] = data.cpu()
        if seal(roots).hex() != given:
            raise OutputChanged
        return roots

    def _call_seeds(self, seeds: Sequence[int]) -> tuple[int, ...]:
        return tuple(seeds) if self._oracle.draws else ()


def _queue_us(host_us: float, busy_us: float) -> float:
    """What to idle between calls where the host takes so long to queue a turn, of which the device is busy so long."""
    return min(max(_QUEUE_MIN_US, _QUEUE_MARGIN * host_us - busy_us), _QUEUE_MAX_US)


class OutputChanged(Exception):
    """An output is not the one that was there when the clock stopped."""
