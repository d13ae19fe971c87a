"""The time stage: candidate and reference in turn, each in its own process, and timed outputs looked at afterwards.

The input of a timed call is made after the call before it has ended. Which outputs are compared is decided after they
were returned, and the last one always is.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import statistics
import time
from collections.abc import Callable, Iterator

from harness.claims import Returned
from harness.clock.offset import event_offset_us
from harness.clock.plan import Goal, Plan, Side
from harness.clock.stats import median_interval, ratio_interval
from harness.compare import check_form, compare, worst
from harness.evidence import Evidence
from harness.oracle import Oracle
from harness.report import LeafReport, Measurement, Timing
from harness.seeds import Seeds
from harness.workers import Worker, WorkerFailure


class ReferenceFailed(Exception):
    """The reference could not be timed: never the submission's fault."""


_VERIFIED = 4
"""Timed calls that are verified on average, besides the last."""
_QUEUE_MAX_US = 5_000.0
_METHODS = {
    "cuda": "device events around one call, L2 cold, behind queued work; the reading of an empty pair taken off",
    "cpu": "monotonic clock around one call, caches cold",
}


class TimeStage:
    """Times one submission against the reference."""

    def __init__(
        self, workers: dict[Side, Worker], oracle: Oracle, seeds: Seeds, evidence: Evidence, *, call_limit_s: float
    ) -> None:
        self._workers = workers
        self._oracle = oracle
        self._seeds = seeds
        self._evidence = evidence
        self._call_limit_s = call_limit_s
        self._device = workers["candidate"].torch_device
        self._serial = itertools.count()
        self._queue_us: dict[Side, float] = {"candidate": 0.0, "reference": 0.0}
        self._host_late: dict[Side, list[bool]] = {"candidate": [], "reference": []}
        self._compared: list[list[LeafReport]] = []
        self._share = 0.0
        self.verified = 0

    def run(self, goal: Goal, on_block: Callable[[int], None]) -> None:
        """Measure until the goal is met. What was found goes to the evidence; a wrong timed output ends it early."""
        began = time.monotonic()
        self._offset_us = event_offset_us(self._device)
        plan = Plan(goal, {side: self._warm_up(side) for side in self._workers})
        expected_calls = max(1, goal.min_blocks) * plan.calls("candidate")
        self._share = min(1.0, _VERIFIED / expected_calls)
        turns = plan.turns()
        while not plan.done(time.monotonic() - began):
            on_block(len(plan.blocks["candidate"]))
            for side in (next(turns), next(turns)):
                with self._blaming(side):
                    plan.blocks[side].append(self._block(side, plan.calls(side)))
            if self._wrong():
                return
        self._call("candidate", verify=True)
        if not self._wrong():
            self._evidence.timing = self._timing(plan)

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

    def _warm_up(self, side: Side) -> float:
        """Let first calls do what first calls do; returns seconds that a timed call takes with everything around it."""
        with self._blaming(side):
            self._call(side)
            host_us = statistics.median(self._call(side)[1] for _ in range(2))
            self._queue_us[side] = min(_QUEUE_MAX_US, 1.5 * host_us + 50) if self._device.type == "cuda" else 0.0
            began = time.monotonic()
            self._block(side, 1)
        self._host_late[side].clear()
        return time.monotonic() - began

    def _block(self, side: Side, calls: int) -> list[float]:
        if side == "reference":
            # Its outputs are not in question: one fresh input a block is enough.
            self._workers[side].put(
                "in", tuple(self._oracle.inputs(self._seeds.of("timed inputs", next(self._serial))))
            )
        samples = []
        for _ in range(calls):
            elapsed_us, host_us = self._call(side, fresh=side == "candidate")
            samples.append(max(0.0, elapsed_us - self._offset_us))
            self._host_late[side].append(self._device.type == "cuda" and host_us > self._queue_us[side] + elapsed_us)
        return samples

    def _call(self, side: Side, *, fresh: bool = True, verify: bool = False) -> tuple[float, float]:
        worker, number = self._workers[side], next(self._serial)
        inputs_seed, call_seed = self._seeds.of("timed inputs", number), self._seeds.of("timed call", number)
        if fresh:
            worker.put("in", tuple(self._oracle.inputs(inputs_seed)))
        returned = worker.call(
            "in",
            "out",
            seed=call_seed,
            limit_s=self._call_limit_s,
            timed=True,
            queue_us=self._queue_us[side],
            restore_buffers=self._oracle.buffers_move,
        )
        # Decided only now: until it returned, a call could not know whether it would be looked at.
        if side == "candidate" and (verify or secrets.randbelow(10_000) < 10_000 * self._share):
            self._verify(inputs_seed, call_seed, number, returned)
        worker.drop(["out"])
        elapsed = returned.elapsed_us or 0.0
        return elapsed, returned.host_us or 0.0

    def _verify(self, inputs_seed: int, call_seed: int, number: int, returned: Returned) -> None:
        expected = self._oracle.expected(inputs_seed, call_seed, restore_buffers=self._oracle.buffers_move)
        self._evidence.form = check_form(expected, returned.value, returned.leaves, self._device.type)
        if self._evidence.form is None:
            pieces = self._workers["candidate"].fetch("out", "early", expected.specs)
            self._compared.append(compare(expected, pieces, number))
            self.verified += 1

    def _timing(self, plan: Plan) -> Timing:
        candidate, reference = plan.blocks["candidate"], plan.blocks["reference"]
        measured = {side: self._measurement(side, blocks) for side, blocks in plan.blocks.items()}
        return Timing(
            candidate=measured["candidate"],
            reference=measured["reference"],
            speedup=measured["reference"].median_us / max(measured["candidate"].median_us, 1e-9),
            speedup_ci95=ratio_interval(reference, candidate),
            stopped_because=plan.stopped_because,
        )

    def _measurement(self, side: Side, blocks: list[list[float]]) -> Measurement:
        samples = [sample for block in blocks for sample in block]
        late = self._host_late[side]
        return Measurement(
            median_us=statistics.median(samples),
            ci95_us=median_interval(blocks),
            mean_us=statistics.fmean(samples),
            min_us=min(samples),
            samples_us=samples,
            block_sizes=[len(block) for block in blocks],
            method=_METHODS[self._device.type],
            host_bound=bool(late) and sum(late) > len(late) / 2,
        )
