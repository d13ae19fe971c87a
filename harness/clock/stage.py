"""The time stage: candidate and reference in turn, each in its own process, seen by two clocks.

    prepare     first calls, each side's mode; the reference's process, which is clean, says what the clocks read beside
                a call
    blocks      single calls, candidate and reference alternating; each input is made after the call before it ended
    warm        a few calls on inputs that were just used
    confirm     the candidate's calls in loops, over which our own clock runs, and loops of a probe in the clean
                process, by turns

Outputs of single calls and of loops are compared with the reference's. Which of them is decided after they were
returned, and the last single call always is. While another side is measured, the candidate's process is stopped.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from harness.check.compare import FormError, worst
from harness.check.oracle import Oracle
from harness.clock.bench import Bench, OutputChanged, Sample, hidden_us
from harness.clock.offset import Offset
from harness.clock.outside import Agreement, Calibration, Estimate, Leeway, Singles, Walls, agreement, estimate
from harness.clock.plan import Goal, Plan, Side
from harness.clock.processes import Processes
from harness.clock.readings import Source
from harness.clock.stats import (
    NOTHING_KNOWN,
    Interval,
    clock_step,
    compare_speed,
    median_interval,
    median_of,
    ratio_interval,
    widened,
    widened_ratio,
)
from harness.clock.steady import Watch
from harness.figures import percent, us
from harness.judge.evidence import Evidence
from harness.machine.others import Others
from harness.report import Baseline, LeafReport, Measurement, OutsideClock, Steadiness, Timing, Warning_
from harness.seeds import Seeds
from harness.workers.prepared import FURTHER
from harness.workers.worker import Worker, WorkerFailure

_VERIFIED = 12
"""Single calls that are verified on average, besides the last; half as many more in each further process. A median is
made smaller only by half of the calls: who leaves those undone gets away with it once in exp(12 / 2) tries."""
_LOOKED_AT = 0.5
"""Share of the single calls of a further try that are verified: who knows that it is one must not gain by it."""
_OTHERS = 0.25
"""Of the processors' time: where other work takes more, times of a CPU have no interval."""
_LOOPS_S = 0.06
"""Seconds of all long loops of a submission together."""
_LOOP_S = 0.03
"""Seconds that a loop takes on a GPU with everything around it."""
_CONFIRM_S = 5.0
"""Seconds of calls for one comparison of the clocks, as far as a call is shorter than that."""
_CONFIRM_BYTES = 20e9
"""The same in bytes of inputs and outputs, which have to be made, moved and compared."""
_CPU_HASHES = 1000.0
"""Bytes in a microsecond, of one core."""
_BATCH_MAX = 400
_TIMES = 3
"""How many times loops are run in each of several processes; in a single one twice as many."""
_SWITCH_S = 2e-4
"""Seconds that one of our threads may keep the others waiting."""
_ROUNDS = 3
"""Times that the clocks may disagree before it counts."""
_SINGLES = 24
"""Readings of our own calls that an offset is made from."""
_OFFSET_MOVED = 2.0
"""Half widths of its interval that the offset of a grading may be from the device's."""
_BARE = 6
"""Calls with nothing around them, all verified."""
_BARE_EACH = 4
"""The same in each of several processes, half of them verified: whoever leaves undone what makes a median smaller has
to do so in all of them."""
_LATER = 2.0
"""Times what a host may take for a call when its mode is chosen that it may take later."""
_WARM = 5
"""Warm calls of each side at most."""
_IDLE_WITHIN_S = 1.0
"""How long a device may go on working for a process that was stopped."""
_NOT_IDLE = "the device went on working for the submission after its calls had ended"
_BUSY = 1.5
"""A turn without a call that takes so many times its usual time shares the device with something."""
_SURE = 0.5
"""A tolerance of more than this share of a call's time confirms little."""
_UNSURE, _UNSURE_US = 1.0, 10.0
"""A tolerance of a GPU's clocks of more than both, the first in times of a call, confirms nothing: whoever leaves his
work undone would be accepted when the host is busy, and only has to try again until it is."""
_LEEWAY = {
    "cuda": Leeway(apart=0.02, noisier=3.0, parts=0.01, skew=0.1),
    # Calls share caches and cores with whatever else runs, now more and now less.
    "cpu": Leeway(apart=0.25, noisier=10.0, parts=0.0, skew=1.0),
}
"""What is borne of a submission's calls."""
_CAPPED = 0.1
"""Share by which calls in a loop may be slower on a GPU whose board draws all the power it may; half of it for what is
around them."""
_CHANGED = {"cuda": 0.05, "cpu": 1.0}
"""Share by which calls may have become slower since the blocks were measured, beyond what the clocks may be apart."""
_METHODS = {
    (
        "cuda",
        "device",
    ): "device events around one call, L2 cold, behind queued work; less what they read beside a kernel",
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
        offset: Offset | None,
        call_limit_s: dict[Side, float],
        alias_outputs: bool,
        again: Callable[[int], list[Worker]] | None = None,
    ) -> None:
        """`offset`: what the device's clock reads beside a kernel; None for a CPU. `call_limit_s`: seconds of a call.
        `alias_outputs`: whether an output may be memory that the next call writes to. `again` gives so many
        further processes of the submission, ready to be called.
        """
        self._oracle = oracle
        self._evidence = evidence
        self._alias_outputs = alias_outputs
        self._device = workers["candidate"].torch_device
        self._watch = Watch(source, judged=self._device.type == "cuda")
        numbers = itertools.count()

        def bench(side: Side, worker: Worker) -> Bench:
            return Bench(worker, oracle, seeds, numbers, call_limit_s=call_limit_s[side])

        self._baselines = {side: bench(side, worker) for side, worker in workers.items() if side != "candidate"}
        self._processes = Processes(bench("candidate", workers["candidate"]))
        self._again = again if again is None else lambda count: [bench("candidate", each) for each in again(count)]
        self._device_offset = offset
        self._offsets: dict[str, Offset] = {}
        self._clean_us: list[list[float]] = []
        """What device events read in the clean process beside calls of our own, microseconds."""
        self._flush_us = self._queued_us = 0.0
        self._hosts_us: list[float] = []
        """What the submission's host took for each call that a device was held for, by our own clock."""
        # A CPU takes a hundred times as long to fill and move tensors, and is never as quiet as a GPU.
        self._singles, self._times = (_SINGLES, 2 * _TIMES) if self._device.type == "cuda" else (10, 4)
        self._starting_s = 0.0
        """That further processes took to start: not of the budget."""
        self._idle = True
        """Whether the device had nothing to do, whenever the probe was measured, for a process that was stopped."""
        self._compared: list[list[LeafReport]] = []
        self._calls = 0
        self._others = 0.0
        """Of a CPU's time, what others took while blocks were measured."""
        self.verified = 0

    def _bench(self, side: Side) -> Bench:
        return self._processes.bench if side == "candidate" else self._baselines[side]

    @property
    def _sides(self) -> tuple[Side, ...]:
        return "candidate", *self._baselines

    def run(self, goal: Goal, on_block: Callable[[str], None]) -> None:
        """Measure until the goal is met. What was found goes to the evidence; a wrong timed output ends it early."""
        with _quick_turns(), self._oracle.keeping_generators():
            self._run(goal, on_block)

    def _run(self, goal: Goal, on_block: Callable[[str], None]) -> None:
        on_block("warming up")
        if "compiled" in self._baselines:
            # Not of the budget: compiling takes longer than everything else.
            with self._blaming("compiled"):
                self._baselines["compiled"].single()
        began = time.monotonic()
        clean = self._prepare(goal)
        began += self._starting_s
        prepared_s = time.monotonic() - began
        # Each process has as many blocks as another.
        count = len(self._processes)
        goal = replace(goal, min_blocks=min(goal.max_blocks, -(-goal.min_blocks // count) * count))
        calls_s: dict[Side, float] = {side: self._call_seconds(side) for side in self._sides}
        plan = Plan(
            goal,
            calls_s,
            reserve_s=self._reserve_s(prepared_s, calls_s["reference"]),
            unsure_us={side: self._unsure_us(side) for side in self._sides},
        )
        others = Others() if self._device.type == "cpu" else None
        wanted = _VERIFIED * (1 + count) / 2
        share = min(1.0, wanted / (goal.min_blocks * plan.calls("candidate")))
        rounds = plan.rounds()
        try:
            while not plan.done(time.monotonic() - began):
                on_block(f"block {len(plan.blocks['candidate']) + 1}")
                for side in next(rounds):
                    self._steady_block(plan, side, share)
                plan.step_us = {side: self._step_us(side, plan) for side in self._sides}
                if self._wrong():
                    return
            self._others = 0.0 if others is None else others.share()
            if plan.unstable:
                self._evidence.unsteady = self._watch.summary()
                return
            on_block("confirming")
            warm_us = {side: self._warm(side, plan.call_s[side]) for side in self._sides}
            confirmed = self._confirm(clean, plan.blocks["candidate"], plan.step_us["candidate"])
        except OutputChanged:
            self._evidence.output_changed = True
            return
        if not self._wrong():
            self._evidence.timing = self._timing(plan, confirmed, warm_us)

    def _reserve_s(self, prepared_s: float, reference_s: float) -> float:
        """Seconds that what comes after the blocks will take. `prepared_s`: what came before them has taken, which is
        much of the same; `reference_s`: what a call of the reference takes, as for each output that is looked at."""
        count = len(self._processes)
        times = self._times if count == 1 else _TIMES
        loops_s = (times + 1) * (count + 1) * _LOOP_S if self._device.type == "cuda" else 0.0
        looks = (times + 1) * count + max(_BARE, _BARE_EACH / 2 * count) + _WARM
        return max(loops_s, prepared_s / 2 + 2 * _LOOPS_S) + looks * reference_s

    def _prepare(self, goal: Goal) -> Singles:
        """Choose each side's mode, and let the clean process say what its clocks read beside a call."""
        reference, candidate = self._baselines["reference"], self._processes.bench
        with candidate.worker.stopped(), self._blaming("reference"):
            self._flush_us = min(reference.empty_turns_us() for _ in range(2))
            self._queued_us = reference.probe_queued_us()
            reference.choose_mode(self._flush_us, self._queued_us)
        if "compiled" in self._baselines:
            with self._blaming("compiled"):
                self._baselines["compiled"].choose_mode(self._flush_us, self._queued_us)
        call_us = candidate.choose_mode(self._flush_us, self._queued_us)
        if self._again is not None and self._is_short(candidate, call_us, goal):
            with candidate.worker.stopped():
                asked = time.monotonic()
                further = self._again(FURTHER)
                self._starting_s = time.monotonic() - asked
                for bench in further:
                    self._processes.add(bench)
        with self._alone("reference") as idle, self._blaming("reference"):
            self._idle &= idle
            for mode in {reference.best_mode, *(self._bench(side).mode for side in self._sides)}:
                self._offsets[mode] = self._offset_of(reference, mode)
            return self._probe_alone(reference, candidate)

    def _is_short(self, bench: Bench, call_us: float, goal: Goal) -> bool:
        """Whether processes differ by more than the goal bears. `call_us`: the reading of a call, offset and all."""
        offset = self._device_offset if bench.mode == "device" else None
        return offset is not None and offset.half_us > goal.relative_half_width * max(0.0, call_us - offset.us)

    def _offset_of(self, clean: Bench, mode: Literal["device", "host"]) -> Offset:
        """What the clock reads beside a call. Read in the clean process: a larger figure makes a submission faster."""
        own_mode, clean.mode = clean.mode, mode
        known = self._device_offset if mode == "device" else None
        readings = clean.own_singles("empty" if known is None or known.null_us is None else "null", self._singles)
        clean.mode = own_mode
        if mode == "device":
            self._clean_us.append(readings)
        now_us = median_of(readings, clock_step(readings)) - (known.null_us or 0.0 if known is not None else 0.0)
        if known is None:
            return Offset(now_us, 2 * estimate(readings).error_us)
        if abs(now_us - known.us) <= _OFFSET_MOVED * known.half_us + clock_step(readings):
            return known
        self._evidence.warnings.append(
            Warning_(
                code="time.offset_moved",
                message=f"The device's events read {now_us:.2f} us beside a kernel now, and {known.us:.2f} us when the "
                "device was measured; the figure of now was taken off. `harness device --measure` measures again.",
            )
        )
        return Offset(now_us, known.half_us, known.null_us)

    def _probe_alone(self, clean: Bench, candidate: Bench) -> Singles:
        """Let the clean process make the candidate's single calls with the probe."""
        offset = self._offsets[candidate.mode]
        readings, walls = clean.probe_singles(self._singles, candidate.mode)
        bare, bare_walls = clean.probe_singles(self._singles, clean.best_mode, "left")
        if candidate.mode == "device":
            self._clean_us.append(readings)

        beside_us = [wall - reading for reading, wall in zip(readings, walls, strict=True)]
        bare_offset_us = self._offsets[clean.best_mode].us
        bare_us = [wall - (reading - bare_offset_us) for reading, wall in zip(bare, bare_walls, strict=True)]
        return Singles(estimate(readings), beside_us, bare_us, Estimate(offset.us, offset.half_us / 2))

    def _step_us(self, side: Side, plan: Plan) -> float:
        """The steps of a side's clock. The candidate has no say in them: made up ones would widen what is borne."""
        if self._bench(side).mode == "host":
            return 0.0  # it counts nanoseconds
        clean = [*self._clean_us]
        if self._bench("reference").mode == "device":
            clean.append(list(itertools.chain(*plan.blocks["reference"])))
        seen = (clock_step(np.round(readings, 6)) for readings in clean)
        return min((step for step in seen if step > 0), default=0.0)

    def _call_seconds(self, side: Side) -> float:
        with self._alone(side), self._blaming(side):
            return self._bench(side).seconds_of_a_call()

    def _steady_block(self, plan: Plan, side: Side, share: float) -> None:
        """Measure a block, and again as long as the device was not steady and the plan bears it."""
        self._processes.turn(len(plan.blocks["candidate"]))
        while True:
            before = len(self._processes.singles)
            with self._alone(side) as idle, self._blaming(side), self._watch.block() as seen:
                plan.blocks[side].append(self._block(side, plan.calls(side), share))
            judged = self._watch.judge(side, seen)
            why = judged.message if judged is not None else None
            if not idle:
                why = _NOT_IDLE
            if why is None:
                return
            if side == "candidate":
                del self._processes.singles[before:]
            if not plan.replace_last(side, why):
                return

    @contextlib.contextmanager
    def _alone(self, side: Side) -> Iterator[bool]:
        """Stop the candidate's processes while another side is measured, or another of them. Says whether the device
        then fell idle."""
        with self._processes.held(all_of_them=side != "candidate"):
            yield side == "candidate" or self._device.type == "cpu" or self._falls_idle(self._baselines[side])

    def _falls_idle(self, clean: Bench) -> bool:
        """Wait until turns without a call take no longer than they must, twice in a row: work of another process's
        leaves gaps."""
        until = time.monotonic() + _IDLE_WITHIN_S
        quiet = 0
        while quiet < 2:
            if clean.empty_turns_us() <= _BUSY * self._flush_us + 100.0:
                quiet += 1
                continue
            if time.monotonic() > until:
                return False
            quiet = 0
            time.sleep(0.02)
        return True

    def _block(self, side: Side, calls: int, share: float) -> list[float]:
        bench = self._bench(side)
        samples = []
        # The reference's outputs are not in question: one fresh input a block is enough for it.
        shared = None if side == "candidate" else bench.put_fresh()[0]
        for _ in range(calls):
            sample = bench.single(shared)
            samples.append(self._net(side, sample.elapsed_us))
            if side == "candidate":
                self._processes.singles.append((samples[-1], _wall_us(sample)))
                self._hosts_us.append(sample.queued_us - self._queued_us)
            # Decided only now: until it returned, a call could not know whether it would be looked at.
            if side == "candidate" and secrets.randbelow(1 << 30) < share * (1 << 30):
                self._look_at(sample, "early", "timed0")
        bench.forget()
        return samples

    def _warm(self, side: Side, call_s: float) -> float:
        """Median of a few calls on an input that was just used."""
        with self._alone(side), self._blaming(side):
            bench = self._bench(side)
            calls = max(1, min(_WARM, int(0.05 / max(call_s, 1e-9))))
            samples = [self._net(side, bench.single(caches="warm").elapsed_us) for _ in range(calls)]
            bench.forget()
        return statistics.median(samples)

    def _net(self, side: Side, elapsed_us: float) -> float:
        # To a picosecond as well: a difference that is nothing but rounding is no time.
        return max(0.0, round(elapsed_us - self._offsets[self._bench(side).mode].us, 6))

    def _confirm(self, clean: Singles, blocks: list[list[float]], step_us: float) -> Agreement:
        """Hold our clock against the workers' until they agree, or have disagreed often enough.

        Returns what was found where they disagree, else in the process that is in the middle of all.
        """
        reported_us = median_of([sample for block in blocks for sample in block], step_us)
        turns, repeats = self._turns_and_repeats(clean, reported_us)
        leeway = _LEEWAY[self._device.type]
        exact = self._processes.bench.mode == "device"
        for attempt in range(_ROUNDS):
            with self._watch.block() as seen:
                measured, probed = self._loops(turns, repeats)
                bare = [self._bare(blocks) for _ in self._each_process()]
            if "sw_power_cap" in seen.seen.throttle:
                leeway = replace(leeway, apart=_CAPPED, parts=_CAPPED / 2)
            found = [
                agreement(walls, singles, bare_us, Calibration(clean, probed), leeway, rounding_us=step_us, exact=exact)
                for walls, singles, bare_us in zip(measured, self._processes.all_singles, bare, strict=True)
            ]
            confirmed = self._idle and all(each.confirmed and self._is_known(each) for each in found)
            if self._wrong() or confirmed or attempt == _ROUNDS - 1:
                break
            # What has changed since the blocks were measured, or disturbed the clean process, is no disagreement.
            with self._alone("reference") as idle, self._blaming("reference"):
                self._idle = idle
                clean = self._probe_alone(self._baselines["reference"], self._processes.bench)
            for _ in self._each_process():
                self._processes.singles.clear()
                self._block("candidate", min(20, max(3, len(blocks[0]))), _LOOKED_AT)
        for _ in self._each_process():
            if not self._wrong():
                self._block("candidate", 1, 1.0)
        confirmed = all(each.confirmed for each in found)
        medians_us = _medians_by_turns(blocks, len(found), step_us)
        for number, each in enumerate(found):
            # What was confirmed in a later round are those calls, and not the ones that are reported, of this process.
            said_us = medians_us[number] if number < len(medians_us) else reported_us
            slower_us = each.single_us - said_us * (1 + _CHANGED[self._device.type])
            if each.confirmed and slower_us > each.single_tolerance_us:
                self._evidence.unsteady = _changed(self._watch.summary(), said_us, each.single_us)
            if confirmed and not self._is_known(each):
                self._evidence.unsteady = _unsteady(self._watch.summary(), _not_known(each))
        if not self._idle:
            self._evidence.unsteady = _unsteady(self._watch.summary(), _NOT_IDLE)
        if exact and (hosts_us := statistics.median(self._hosts_us)) > _LATER * hidden_us(self._flush_us, reported_us):
            self._evidence.unsteady = _unsteady(self._watch.summary(), _host_slower(hosts_us))
        least = max(found, key=lambda each: each.unsure_us)
        if confirmed and least.unsure_us > _SURE * abs(least.single_us):
            self._evidence.warnings.append(_unsure(least))
        found.sort(key=lambda each: each.outside_us - each.inside_us)
        if disagreeing := [each for each in found if not each.confirmed]:
            return disagreeing[-1]
        return found[len(found) // 2]

    def _bare(self, blocks: list[list[float]]) -> list[float]:
        """Walls of calls with nothing around them, microseconds."""
        bench, walls, count = self._processes.bench, [], len(self._processes)
        for _ in range(min(_BARE if count == 1 else _BARE_EACH, max(3, len(blocks[0])))):
            sample = bench.single(caches="left", mode=bench.best_mode)
            walls.append(_wall_us(sample))
            if count == 1 or secrets.randbelow(2):
                self._look_at(sample, "early", "timed0")
        bench.forget()
        return walls

    def _is_known(self, found: Agreement) -> bool:
        """Whether the clocks say anything at all of each other; a CPU's seldom do, and no board compares its times."""
        return self._device.type == "cpu" or found.unsure_us <= max(_UNSURE * abs(found.single_us), _UNSURE_US)

    def _turns_and_repeats(self, clean: Singles, reported_us: float) -> tuple[int, int]:
        """Turns of a long loop, and how many times loops are run."""
        bench = self._processes.bench
        on_gpu = self._device.type == "cuda"
        # A GPU takes about twice as long for a digest as the probe does to write what is digested.
        digest_us = 2 * clean.probe.us if on_gpu else self._oracle.output_bytes / _CPU_HASHES
        turn_us = self._flush_us + digest_us + reported_us
        times = self._times if len(self._processes) == 1 else _TIMES
        loop_us = _LOOPS_S * 1e6 / (times * len(self._processes))
        turns = int(loop_us / max(turn_us, 1.0))
        most = int(min(_CONFIRM_S * 1e6 / turn_us, _CONFIRM_BYTES / max(1, self._oracle.call_bytes)))
        # Of two loops nobody knows how far they may be apart: rather shorter ones.
        turns = bench.fitting(max(4, min(_BATCH_MAX, turns, most // _TIMES)))
        calls = sum(count for count, _ in Walls(turns, on_gpu).lengths)
        return turns, max(2, min(times, most // calls))

    def _each_process(self) -> Iterator[None]:
        """The turn of each of the submission's processes, the others held still."""
        for number in range(len(self._processes)):
            self._processes.turn(number)
            with self._processes.held(all_of_them=False):
                yield

    def _loops(self, turns: int, repeats: int) -> tuple[list[Walls], Walls]:
        """Loops of each of the submission's processes, and of the probe in the clean one, by turns."""

        def look(samples: list[Sample]) -> None:
            # A model whose state moves gives other outputs in the middle of a batch than at its start.
            if not self._oracle.buffers_move:
                last = len(samples) - 1
                turn = last if self._alias_outputs else secrets.randbelow(len(samples))
                self._look_at(samples[turn], "live", f"batch{turn}")

        clean, first = self._baselines["reference"], self._processes.bench
        marked = self._device.type == "cuda"
        measured = [Walls(turns, marked) for _ in range(len(self._processes))]
        probed = Walls(turns, marked)
        for _ in self._each_process():
            self._processes.bench.find_memory(turns)
        # A CPU's caches are the other process's after each turn.
        for number, count in enumerate([1] * repeats if marked else [repeats]):
            with self._alone("reference") as idle, self._blaming("reference"):
                self._idle &= idle
                if not number:
                    clean.put_as_many(turns)
                    clean.probe_loops(Walls(turns, marked), first.mode)  # finds memory
                for _ in range(count):
                    clean.probe_loops(probed, first.mode)
            for walls, _ in zip(measured, self._each_process(), strict=True):
                for _ in range(count):
                    self._processes.bench.loops(walls, look)
        with self._blaming("reference"):
            clean.worker.drop(["pool"])
        return measured, probed

    def _look_at(self, sample: Sample, which: Literal["early", "live"], name: str) -> None:
        self._calls += 1
        found = self._processes.bench.look_at(sample, which, name, self._calls)
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
            if side == "candidate":
                raise
            raise ReferenceFailed(str(failure)) from failure

    def _timing(self, plan: Plan, confirmed: Agreement, warm_us: dict[Side, float]) -> Timing:
        measured = {side: self._measurement(side, plan, warm_us[side]) for side in plan.blocks}
        speedup, interval = self._speedup(plan, "reference")
        baselines = {}
        if "compiled" in plan.blocks:
            faster, of = self._speedup(plan, "compiled")
            baselines["compile"] = Baseline(
                measured=measured["compiled"], speedup=faster, speedup_ci95=of, comparison=compare_speed(of)
            )
        shortfall = plan.shortfall()
        if self._others > _OTHERS:
            busy = f"Other work took {percent(self._others)} of the processors meanwhile, so no interval can be given."
            shortfall = f"{busy} {shortfall}".strip()
            self._evidence.warnings.append(_busy(self._others))
        return Timing(
            candidate=measured["candidate"],
            reference=measured["reference"],
            speedup=speedup,
            speedup_ci95=interval,
            comparison=compare_speed(interval),
            baselines=baselines,
            shortfall=shortfall,
            # Of a CPU little can be read, and none of it decides anything.
            steadiness=self._watch.summary() if self._device.type == "cuda" else None,
            outside=OutsideClock(
                outside_us=confirmed.outside_us,
                inside_us=confirmed.inside_us,
                tolerance_us=confirmed.tolerance_us,
                whole_us=confirmed.whole_us,
                whole_tolerance_us=confirmed.whole_tolerance_us,
                single_us=confirmed.single_us,
                single_tolerance_us=confirmed.single_tolerance_us,
                single_outside_us=confirmed.single_outside_us,
                single_outside_tolerance_us=confirmed.single_outside_tolerance_us,
                bare_outside_us=confirmed.bare_outside_us,
                bare_tolerance_us=confirmed.bare_tolerance_us,
                calls=confirmed.calls,
                by_singles=confirmed.by_singles,
                ahead=confirmed.ahead,
                unsure_us=confirmed.unsure_us,
                confirmed=confirmed.confirmed,
            ),
            stopped_because=plan.stopped_because,
        )

    def _speedup(self, plan: Plan, baseline: Side) -> tuple[float, tuple[float, float]]:
        """How many times as fast as `baseline`, and its interval."""
        above, below = plan.blocks[baseline], plan.blocks["candidate"]
        steps = plan.step_us[baseline], plan.step_us["candidate"]
        medians: dict[Side, float] = {side: self._median_us(plan, side) for side in (baseline, "candidate")}
        unknown = [self._unsure_us(side) / max(median, 1e-9) for side, median in medians.items()]
        low, high = widened_ratio(ratio_interval(above, below, steps=steps), math.hypot(*unknown))
        if len(self._processes) > 1 and not math.isinf(high):
            # Drawn around the median of the calls of all processes together.
            moved = median_of(list(itertools.chain(*below)), steps[1]) / max(medians["candidate"], 1e-9)
            low, high = low * moved, high * moved
        return medians[baseline] / max(medians["candidate"], 1e-9), self._believed((low, high))

    def _process_medians_us(self, plan: Plan, side: Side) -> list[float]:
        """Of each of the processes, which blocks were measured in by turns."""
        return _medians_by_turns(plan.blocks[side], self._count(side), plan.step_us[side])

    def _median_us(self, plan: Plan, side: Side) -> float:
        """The median of a process; of several their mean, which moves less than a median of all calls does: there are
        quick and slow processes, and few of either."""
        return statistics.fmean(self._process_medians_us(plan, side))

    def _unsure_us(self, side: Side) -> float:
        """How far the process, or the mean of some, may be from others: half of a 95 % interval, microseconds."""
        return self._offsets[self._bench(side).mode].half_us / math.sqrt(self._count(side))

    def _count(self, side: Side) -> int:
        """Of processes."""
        return len(self._processes) if side == "candidate" else 1

    def _believed(self, interval: Interval) -> Interval:
        """Beside other work nothing: how much longer a call takes for it can be any factor."""
        return NOTHING_KNOWN if self._others > _OTHERS else interval

    def _measurement(self, side: Side, plan: Plan, warm_us: float) -> Measurement:
        blocks, step_us = plan.blocks[side], plan.step_us[side]
        samples = [sample for block in blocks for sample in block]
        mode = self._bench(side).mode
        medians_us, median_us = self._process_medians_us(plan, side), self._median_us(plan, side)
        # Drawn around the median of the calls of all processes together.
        pooled_us = median_of(samples, step_us)
        low_us, high_us = widened(median_interval(blocks, step=step_us), pooled_us, self._unsure_us(side))
        moved_us = median_us - pooled_us
        return Measurement(
            median_us=median_us,
            ci95_us=self._believed((max(0.0, low_us + moved_us), high_us + moved_us)),
            mean_us=statistics.fmean(samples),
            min_us=min(samples),
            warm_us=warm_us,
            samples_us=samples,
            block_sizes=[len(block) for block in blocks],
            process_medians_us=medians_us if len(medians_us) > 1 else [],
            method=_METHODS[self._device.type, mode],
            step_us=step_us,
            host_bound=self._device.type == "cuda" and mode == "host",
        )


def _wall_us(sample: Sample) -> float:
    """The wall of a single call of the submission. Raises OutputChanged where its end was said too early."""
    if sample.early:
        raise OutputChanged
    return sample.wall_us


def _changed(seen: Steadiness, reported_us: float, later_us: float) -> Steadiness:
    """The device, or the submission, is not what it was while the blocks were measured."""
    return _unsteady(
        seen, f"a call took {reported_us:.2f} us in the blocks and {later_us:.2f} us when the clocks were compared"
    )


def _unsteady(seen: Steadiness, why: str) -> Steadiness:
    return seen.model_copy(update={"measured_again": seen.measured_again + 1, "why": [why, *seen.why]})


def _busy(share: float) -> Warning_:
    return Warning_(
        code="device.busy",
        message=f"Other work took {percent(share)} of the processors while this was timed: times are longer for it, by "
        "a factor that can't be known. Grade again when the machine has nothing else to do.",
        evidence={"share": share},
    )


def _medians_by_turns(blocks: list[list[float]], count: int, step_us: float) -> list[float]:
    """Of `count` processes that blocks were measured in by turns. A stage that was cut short may not have come to the
    last of them."""
    return [
        median_of(list(itertools.chain(*blocks[number::count])), step_us) for number in range(min(count, len(blocks)))
    ]


def _not_known(found: Agreement) -> str:
    return (
        f"the grader's own clock could be {us(found.unsure_us)} apart from the worker's, which says that a call "
        f"takes {us(found.single_us)}: something else keeps this machine's processors or the device busy"
    )


def _host_slower(host_us: float) -> str:
    return (
        f"its host took {us(host_us)} to launch a call, and so little at first that its calls were timed by the "
        "device's clock alone"
    )


def _unsure(found: Agreement) -> Warning_:
    return Warning_(
        code="time.weakly_confirmed",
        message=f"The clocks could be {us(found.unsure_us)} apart here, and a call "
        f"takes {us(found.single_us)} by the worker's: that it takes no longer rests on the worker's word.",
    )


@contextlib.contextmanager
def _quick_turns() -> Iterator[None]:
    """Let this thread go on soon after each wait, while others of the interpreter watch sandboxes and read the device.

    A thread that wants to go on waits 5 ms by default for one that computes, and here it does so at every step.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
