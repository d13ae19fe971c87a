"""The time stage: candidate and reference in turn, each in its own process, seen by two clocks.

    calibrate   the reference's process, which is clean, runs empty loops and probes
    blocks      single calls, candidate and reference alternating; each input is made after the call before it ended
    batches     the candidate's calls in loops of n and 2n, over which our own wall clock runs

Outputs of single calls and of batches are compared with the reference's. Which of them is decided after they were
returned, and the last one always is.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Literal

import torch

from harness.clock.bench import REPEATS, Batches, Bench, Sample
from harness.clock.outside import Agreement, Calibration, Estimate, agreement
from harness.clock.plan import Goal, Plan, Side
from harness.clock.readings import Source
from harness.clock.stats import compare_speed, median_interval, ratio_interval
from harness.clock.steady import Watch
from harness.compare import FormError, worst
from harness.evidence import Evidence
from harness.oracle import Oracle
from harness.report import LeafReport, Measurement, OutsideClock, Timing
from harness.seeds import Seeds
from harness.workers import Worker, WorkerFailure

_VERIFIED = 4
"""Single calls that are verified on average, besides the last."""
_BATCH_S = 0.02
"""Seconds that a short batch should take: long enough that a wall of it is exact, short enough for many."""
_CONFIRM_S = 5.0
"""Seconds of calls for one comparison of the clocks, as far as a call is shorter than that."""
_BATCH_MAX = 200
_BATCH_MEMORY = 0.1
"""Share of the device's free memory that the inputs and outputs of a long batch may take."""
_ROUNDS = 3
"""Times that the clocks may disagree before it counts."""
_METHODS = {
    ("cuda", "device"): "device events around one call, L2 cold, behind queued work; an empty pair's reading taken off",
    ("cuda", "host"): "host clock around one call and the wait for the device, L2 cold; an empty wait taken off",
    ("cpu", "host"): "host clock around one call, caches cold",
}


class ReferenceFailed(Exception):
    """The reference could not be timed: never the submission's fault."""


class TimeStage:
    """Times one submission against the reference."""

    def __init__(
        self,
        workers: dict[Side, Worker],
        oracle: Oracle,
        seeds: Seeds,
        evidence: Evidence,
        source: Source,
        *,
        call_limit_s: float,
        alias_outputs: bool,
    ) -> None:
        """`alias_outputs`: whether an output may be memory that the next call writes to."""
        self._oracle = oracle
        self._evidence = evidence
        self._alias_outputs = alias_outputs
        self._device = workers["candidate"].torch_device
        self._watch = Watch(source, judged=self._device.type == "cuda")
        numbers = itertools.count()
        self._benches: dict[Side, Bench] = {
            side: Bench(worker, oracle, seeds, numbers, call_limit_s=call_limit_s) for side, worker in workers.items()
        }
        self._offset_us: dict[Side, float] = {}
        self._compared: list[list[LeafReport]] = []
        self._calls = 0
        self.verified = 0

    def run(self, goal: Goal, on_block: Callable[[str], None]) -> None:
        """Measure until the goal is met. What was found goes to the evidence; a wrong timed output ends it early."""
        began = time.monotonic()
        on_block("warming up")
        calibration = self._prepare()
        plan = Plan(goal, {side: self._call_seconds(side) for side in self._benches})
        share = min(1.0, _VERIFIED / (goal.min_blocks * plan.calls("candidate")))
        turns = plan.turns()
        while not plan.done(time.monotonic() - began):
            on_block(f"block {len(plan.blocks['candidate']) + 1}")
            for side in (next(turns), next(turns)):
                self._steady_block(plan, side, share)
            if self._wrong():
                return
        if plan.unstable:
            self._evidence.unsteady = self._watch.summary()
            return
        on_block("confirming")
        median_us = statistics.median(itertools.chain(*plan.blocks["candidate"]))
        confirmed = self._confirm(calibration, median_us)
        if not self._wrong():
            self._block("candidate", 1, 1.0)
        if not self._wrong():
            self._evidence.timing = self._timing(plan, confirmed)

    def _prepare(self) -> Calibration:
        """Choose each side's mode, and let the clean process say what its clocks are apart."""
        reference, candidate = self._benches["reference"], self._benches["candidate"]
        with self._blaming("reference"):
            flush_us = reference.empty_turn_us()
            reference.choose_mode(flush_us)
        candidate.choose_mode(flush_us)
        with self._blaming("reference"):
            own_mode, reference.mode = reference.mode, candidate.mode
            reference.queue_us = candidate.queue_us
            turn_us = flush_us + (candidate.queue_us if candidate.mode == "device" else 0.0)
            turns = max(3, min(_BATCH_MAX, int(_BATCH_S * 1e6 / max(turn_us, 1.0))))
            # An empty pair of events reads something, and so does an empty wait: neither is time of a call. Read in the
            # clean process, since a larger figure would make the submission faster.
            empty, offset = reference.walls(turns)
            probe, probe_inside = reference.walls(turns, probe=True)
            reference.mode = own_mode
            own_offset = offset if own_mode == candidate.mode else reference.walls(turns)[1]
        self._offset_us = {"candidate": offset.us, "reference": own_offset.us}
        return Calibration(empty=empty, bias=probe - empty - (probe_inside - offset))

    def _call_seconds(self, side: Side) -> float:
        with self._blaming(side):
            return self._benches[side].seconds_of_a_call()

    def _steady_block(self, plan: Plan, side: Side, share: float) -> None:
        """Measure a block, and again as long as the device was not steady and the plan bears it."""
        while True:
            with self._blaming(side), self._watch.block() as seen:
                plan.blocks[side].append(self._block(side, plan.calls(side), share))
            why = self._watch.judge(side, seen)
            if why is None or not plan.replace_last(side, why.message):
                return

    def _block(self, side: Side, calls: int, share: float) -> list[float]:
        bench = self._benches[side]
        samples = []
        # The reference's outputs are not in question: one fresh input a block is enough for it.
        shared = bench.put_fresh()[0] if side == "reference" else None
        for _ in range(calls):
            sample = bench.single(shared)
            samples.append(max(0.0, sample.elapsed_us - self._offset_us[side]))
            # Decided only now: until it returned, a call could not know whether it would be looked at.
            if side == "candidate" and secrets.randbelow(1 << 30) < share * (1 << 30):
                self._look_at(sample, "early", "timed0")
            bench.forget()
        return samples

    def _confirm(self, calibration: Calibration, median_us: float) -> Agreement:
        """Hold our clock against the worker's until they agree, or have disagreed often enough."""
        turn_us = calibration.empty.us + median_us
        turns = self._batch_turns(turn_us)
        repeats = max(1, min(REPEATS, int(_CONFIRM_S * 1e6 / (3 * turns * turn_us))))
        for attempt in range(_ROUNDS):
            measured = self._batches(turns, repeats)
            inside = Estimate(measured.inside.us - self._offset_us["candidate"], measured.inside.error_us)
            found = agreement(measured.turn, inside, calibration, measured.calls)
            if found.confirmed or self._wrong() or attempt == _ROUNDS - 1:
                break
        return found

    def _batches(self, turns: int, repeats: int) -> Batches:
        def look(samples: list[Sample]) -> None:
            # A model whose state moves gives other outputs in the middle of a batch than at its start.
            if not self._oracle.buffers_move:
                last = len(samples) - 1
                for turn in {last, last if self._alias_outputs else secrets.randbelow(len(samples))}:
                    self._look_at(samples[turn], "live", f"batch{turn}")

        return self._benches["candidate"].batches(turns, repeats, look)

    def _batch_turns(self, turn_us: float) -> int:
        """Calls of a short batch, by time and by memory for the inputs and outputs of one twice as long."""
        turns = max(2, min(_BATCH_MAX, int(_BATCH_S * 1e6 / max(turn_us, 1.0))))
        if self._device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self._device)
            turns = min(turns, int(_BATCH_MEMORY * free / (2 * max(1, self._oracle.call_bytes))))
        return max(1, turns)

    def _look_at(self, sample: Sample, which: Literal["early", "live"], name: str) -> None:
        self._calls += 1
        found = self._benches["candidate"].look_at(sample, which, name, self._calls)
        if isinstance(found, FormError):
            self._evidence.form = found
        else:
            self._compared.append(found)
            self.verified += 1

    def _wrong(self) -> bool:
        self._evidence.timed = worst(self._compared) if self._compared else []
        return self._evidence.form is not None or not all(leaf.ok for leaf in self._evidence.timed)

    @contextlib.contextmanager
    def _blaming(self, side: Side) -> Iterator[None]:
        try:
            yield
        except WorkerFailure as failure:
            if side == "reference":
                raise ReferenceFailed(str(failure)) from failure
            raise

    def _timing(self, plan: Plan, confirmed: Agreement) -> Timing:
        candidate, reference = plan.blocks["candidate"], plan.blocks["reference"]
        measured = {side: self._measurement(side, blocks) for side, blocks in plan.blocks.items()}
        speedup_ci95 = ratio_interval(reference, candidate)
        return Timing(
            candidate=measured["candidate"],
            reference=measured["reference"],
            speedup=measured["reference"].median_us / max(measured["candidate"].median_us, 1e-9),
            speedup_ci95=speedup_ci95,
            comparison=compare_speed(speedup_ci95),
            shortfall=plan.shortfall(),
            # Of a CPU little can be read, and none of it decides anything.
            steadiness=self._watch.summary() if self._device.type == "cuda" else None,
            outside=OutsideClock(
                outside_us=confirmed.outside_us,
                inside_us=confirmed.inside_us,
                tolerance_us=confirmed.tolerance_us,
                calls=confirmed.calls,
                confirmed=confirmed.confirmed,
            ),
            stopped_because=plan.stopped_because,
        )

    def _measurement(self, side: Side, blocks: list[list[float]]) -> Measurement:
        samples = [sample for block in blocks for sample in block]
        mode = self._benches[side].mode
        return Measurement(
            median_us=statistics.median(samples),
            ci95_us=median_interval(blocks),
            mean_us=statistics.fmean(samples),
            min_us=min(samples),
            samples_us=samples,
            block_sizes=[len(block) for block in blocks],
            method=_METHODS[self._device.type, mode],
            host_bound=self._device.type == "cuda" and mode == "host",
        )
