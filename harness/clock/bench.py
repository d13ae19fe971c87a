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
from harness.wire.mask import KEY_BITS, masked
from harness.wire.transfer import TensorSpec, flat_bytes, in_index_order
from harness.workers.claims import Output
from harness.workers.loop import Caches, Loop, Ran
from harness.workers.worker import Worker, WorkerFailure

_HIDDEN_US = 250.0
"""What a host may take to launch a call that is timed by the device's clock, or as long as the device takes for it: a
slower one is part of the time."""
_MOST_BYTES_PER_US = 10e6
"""No GPU writes more."""
_TRIES = 3
"""Times that a loop of the probe is run until its host is ahead of its device: a longer turn would excuse the
submission's."""
_FEW = 5
"""Turns for a first guess."""
_FOUND_BYTES = 1 << 30
"""Outputs of a loop for which the worker finds memory anyway, as it fills that before the loop begins."""
_FIRST = 3
"""Calls after which a process is as quick as it will be, where another has shown how it is to be timed."""
_BATCH_MEMORY = 0.1
"""Share of the device's free memory that the inputs and outputs of a batch may take."""
_LIMIT_S = 60.0
"""For loops without calls of the submission."""

Own = Literal["empty", "null", "probe"]


@dataclass(frozen=True)
class Sample:
    """One timed call, and what it takes to make its expected output."""

    elapsed_us: float
    host_us: float
    wall_us: float
    """By our own clock, from the order to begin, or from a device's release, to the answer that it has ended; 0 for a
    call in a loop."""
    inputs_seed: int
    call_seed: int
    output: Output
    seal: str = ""
    """Of a single call: what the worker said at its end."""
    queued_us: float = 0.0
    """Of a single call that a device was held for: what the host took to queue it and all around it, by our clock."""
    early: bool = False
    """Of a single call: whether its output was not there when that was said."""
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
        self.mode = self.best_mode

    @property
    def loop(self) -> Loop:
        """A loop of this side's mode, without turns yet."""
        return Loop(
            turns=0,
            mode=self.mode,
            specs=tuple(self._oracle.output_specs),
            restore_buffers=self._oracle.buffers_move,
        )

    def empty_turns_us(self) -> float:
        """What one turn without a call takes, microseconds of wall clock."""
        loop = replace(self.loop, turns=_FEW, kind="empty", specs=(), restore_buffers=False)
        return self.worker.time(loop, _LIMIT_S).wall_s / _FEW * 1e6

    def choose_mode(self, flush_us: float, beside_us: float) -> float:
        """Let first calls do what first calls do; then device mode where the host is quick enough for it.

        `flush_us` is the time of an empty turn: as much of the host's side stays hidden, and some, and what the device
        takes for the call. `beside_us` is what a clean process takes to queue what is around a call. Returns the
        reading of a call, microseconds, in which nothing has been taken off yet.
        """
        elapsed_us = self.single().elapsed_us
        if self.mode == "device":
            behind = [self.single() for _ in range(3)]
            # What else runs here makes it no shorter; and the worker's word is held against our own clock.
            host_us = max(
                min(sample.host_us for sample in behind),
                min(sample.queued_us for sample in behind) - beside_us,
            )
            elapsed_us = statistics.median(min(sample.elapsed_us, sample.wall_us) for sample in behind)
            if host_us > hidden_us(flush_us, elapsed_us):
                self.mode = "host"
                self.single()
        self.forget()
        return elapsed_us

    def follow(self, first: Bench) -> None:
        """Let first calls do what first calls do, and be timed as another process of the same submission is."""
        self.mode = first.mode
        for _ in range(_FIRST):
            self.single()
        self.forget()

    def _probes(self, turns: int, mode: Literal["device", "host"]) -> Loop:
        """A loop of the probe."""
        own = replace(self.loop, kind="probe", inputs="pool", sealed=True, restore_buffers=False)
        return replace(own, turns=turns, mode=mode)

    def _turn_us(self, loop: Loop) -> float:
        """What a turn takes at the least."""
        if loop.mode == "host":
            return 0.0
        return self.worker.flush_bytes / _MOST_BYTES_PER_US

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
        self.worker.put("pool", pool if key is None else masked(pool, key, self.worker.masker))
        return seeds

    def _key(self) -> int | None:
        """For the mask on the inputs of a loop. A CPU would take longer for masks than for calls, and their wall has
        nothing else to begin behind."""
        return secrets.randbits(KEY_BITS) if self.worker.torch_device.type == "cuda" else None

    def single(
        self,
        seeds: tuple[int, int] | None = None,
        *,
        caches: Caches = "cold",
        mode: Literal["device", "host"] | None = None,
    ) -> Sample:
        """One call, on an input that is made now unless `seeds` says that it is there already; in this side's mode
        unless another is named."""
        key = None if seeds else secrets.randbits(KEY_BITS)
        inputs_seed, call_seed = seeds or self.put_fresh(key=key)[0]
        loop = replace(
            self.loop,
            turns=1,
            mode=mode or self.mode,
            inputs="pool",
            seeds=self._call_seeds([call_seed]),
            caches=caches,
            sealed=seeds is None,
        )
        ran = self.worker.time(loop, self._limit_s * (2 if caches == "warm" else 1), key)
        timed = self.worker.times(loop, "timed")
        return Sample(
            timed.elapsed_us[0],
            timed.host_us[0],
            ran.wall_s * 1e6,
            inputs_seed,
            call_seed,
            timed.outputs[0],
            ran.seal,
            queued_us=ran.held_s * 1e6,
            early=ran.early,
        )

    def own_singles(self, kind: Own, count: int) -> list[float]:
        """Readings of single turns with a call of our own: what the clock says in just the way it does for `single`."""
        loop = replace(self.loop, turns=1, kind=kind, restore_buffers=False)
        return readings_alone(self.worker, loop, count)

    @property
    def best_mode(self) -> Literal["device", "host"]:
        """That in which walls of single calls are known best."""
        return "device" if self.worker.torch_device.type == "cuda" else "host"

    def probe_queued_us(self) -> float:
        """What this process's host takes to queue a probe and all around it, by our own clock; 0 for a CPU."""
        if self.best_mode == "host":
            return 0.0
        return min(ran.held_s * 1e6 for ran, _ in self._probes_alone(_FEW, self.best_mode))

    def probe_singles(
        self, count: int, mode: Literal["device", "host"], caches: Caches = "cold"
    ) -> tuple[list[float], list[float]]:
        """Readings and walls, microseconds, of copies of tensors like the outputs, in just the way of `single`."""
        found = list(self._probes_alone(count, mode, caches))
        return [reading for _, reading in found], [ran.wall_s * 1e6 for ran, _ in found]

    def _probes_alone(
        self, count: int, mode: Literal["device", "host"], caches: Caches = "cold"
    ) -> Iterator[tuple[Ran, float]]:
        """Loops of one probe each, and what the worker's clock reads in them, microseconds."""
        loop = replace(self._probes(1, mode), caches=caches)
        for _ in range(count):
            key = secrets.randbits(KEY_BITS)
            self.put_fresh(key=key)  # as before each call: what that leaves in the host's caches is part of a wall
            ran = self.worker.time(loop, _LIMIT_S, key)
            (reading,) = self.worker.times(loop).elapsed_us
            yield ran, reading

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

    def put_as_many(self, turns: int) -> None:
        """Send what takes as long to be unmasked as the inputs of so many turns, for loops of the probe."""
        if self.worker.torch_device.type == "cuda":
            (inputs,) = self._oracle.pool([self._seeds.of("timed inputs", next(self._numbers))])
            self.worker.put("pool", (tuple(inputs),) * turns)

    def probe_loops(self, walls: Walls, mode: Literal["device", "host"]) -> None:
        """The same with the probe, as another process does it; see `put_as_many`."""
        for turns, marked in walls.lengths:
            loop = replace(self._probes(turns, mode), marked=marked)
            for _ in range(_TRIES):
                ran = self.worker.time(loop, _LIMIT_S, self._key(), turn_us=self._turn_us(loop))
                if ran.ahead:
                    break
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
    ) -> None:
        """Run one."""
        key = self._key()
        seeds = self.put_fresh(turns, key=key)
        calls = self._call_seeds([call for _, call in seeds])
        loop = replace(self.loop, turns=turns, inputs="pool", sealed=True, seeds=calls, marked=marked)
        ran = self.worker.time(loop, self._limit_s * turns, key, turn_us=self._turn_us(loop))
        timed = self.worker.times(loop, "batch")
        if ran.early:
            # When that was said, nobody had computed its outputs.
            raise OutputChanged
        if walls is not None:
            walls.add(ran.wall_s, ran.span_s, timed.elapsed_us, timed.around_us)
            walls.behind += not ran.ahead
            walls.copied |= any(leaf.copied for output in timed.outputs for leaf in output.leaves)
        if look is not None:
            roots = self._sealed_roots(turns, ran.seal)
            columns = zip(timed.elapsed_us, timed.host_us, seeds, timed.outputs, roots, strict=True)
            look([Sample(elapsed, host, 0.0, *pair, output, root=row) for elapsed, host, pair, output, row in columns])
        self.worker.drop([f"batch{turn}" for turn in range(turns)])

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


def hidden_us(flush_us: float, call_us: float) -> float:
    """What a host may take for a call that is timed by the device's clock: what hides behind an empty turn and some, or
    what the device takes for the call. A host that is quicker keeps ahead of it in whatever is made of such calls."""
    return max(_HIDDEN_US + flush_us, call_us)


class OutputChanged(Exception):
    """An output is not the one that was there when the clock stopped."""
