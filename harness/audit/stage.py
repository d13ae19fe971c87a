"""The audit stage: further calls of a submission that is right, on inputs that show what results and times don't.

    own inputs    a fresh input of the problem: three calls on it, a trace of some more on a GPU, then all tensors are
                  written to, which shows what shares memory
    probes        inputs made from it (probes.py), as many kinds as the time allows

All but the trace rests on bytes that the grader holds against results of its own. A worker that does not write when it
is told to only keeps it from being seen that memory is shared.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from harness.audit import static
from harness.audit.accuracy import Accuracy, Answered
from harness.audit.findings import Audit, Repeat
from harness.audit.kernels import attribute, names_in_library, names_in_text, own_share
from harness.audit.notes import (
    below_warning,
    fails_warning,
    kernel_warnings,
    no_room_warning,
    no_trace_warning,
    values_warning,
)
from harness.audit.precision import Collected
from harness.audit.probes import OWN
from harness.audit.sharing import shared_memory
from harness.audit.wide import NoMemory
from harness.check.compare import FormError, check_form, compare
from harness.check.oracle import Oracle
from harness.judge.evidence import Evidence
from harness.load.problem import ProblemError
from harness.load.spec import ProblemSpec
from harness.machine.lacking import lacks_device_memory
from harness.report import LeafReport
from harness.seeds import Seeds
from harness.wire.mask import KEY_BITS, masked
from harness.workers.loop import Loop
from harness.workers.worker import Worker, WorkerFailure

_REPEATS = 3
"""Calls on one input."""
_SHOWN = 200
"""Kernels that the report holds."""
_TRACED = 3
"""Calls under the profiler."""
_SHARE, _LEAST_S = 0.1, 1.0
"""Of the time that the grading has taken so far, and seconds: what the probes may take together."""


class AuditStage:
    """Audits one submission."""

    def __init__(
        self,
        worker: Worker,
        oracle: Oracle,
        seeds: Seeds,
        evidence: Evidence,
        spec: ProblemSpec,
        *,
        source: str,
        elapsed_s: float,
        clean: Worker | None = None,
        last: bool = True,
    ) -> None:
        """`source`: the submission's text; `elapsed_s`: what the grading has taken so far; `clean`: the reference's
        process, if there is one; `last`: whether nothing is timed after this."""
        self._clean, self._last = clean, last
        self._worker, self._oracle, self._seeds, self._evidence = worker, oracle, seeds, evidence
        self._spec, self._source = spec, source
        self._budget_s = max(_LEAST_S, _SHARE * elapsed_s)
        self._accuracy = Accuracy(spec, oracle, seeds, worker.torch_device, postpones=True)
        self._found = Audit()
        self._left_out: list[str] = []
        self._held: list[str] = []
        self._calls = 0
        self._call_s = 0.0
        """Of the last call, by our own clock."""

    def run(self, say: Callable[[str], None]) -> None:
        """Look at everything; what was found goes to the evidence."""
        try:
            say("own inputs")
            if self._own(say):
                self._probes(say)
        finally:
            self._accuracy.release()
        self._evidence.warnings += static.warnings(self._source)
        self._say_all()

    def explain(self, say: Callable[[str], None]) -> None:
        """Of a submission whose values are outside the tolerance: whether their errors are those of a coarser
        arithmetic. One more call."""
        say("own inputs")
        try:
            answer = self._call(OWN, 0)
            if isinstance(answer, tuple):
                self._accuracy.add(answer[0])
        finally:
            self._accuracy.release()
        self._say_all()

    @property
    def postponed(self) -> bool:
        """Whether there was no memory to judge its precision while the submission held some."""
        return self._accuracy.postponed

    def judge_postponed(self) -> None:
        """That, once the submission's process has ended."""
        try:
            self._accuracy.judge_postponed(self._budget_s)
        finally:
            self._accuracy.release()
        self._say_all()

    def _say_all(self) -> None:
        precision = self._accuracy.result()
        self._evidence.audit = self._found.model_copy(update={"precision": precision, "left_out": self._left_out})
        if precision.below and precision.policy == "flag":
            self._evidence.warnings.append(below_warning(precision.asked))

    def _own(self, say: Callable[[str], None]) -> bool:
        """Calls on one input of the problem's own. Returns whether the audit can go on to others."""
        answer = self._call(OWN, 0)
        assert answer is not None  # only a probe may find nothing to alter
        if isinstance(answer, FormError):
            self._evidence.form = answer
            return False
        answered, leaves = answer
        if not all(leaf.ok for leaf in leaves):
            if self._oracle.buffers_move:
                # Its state and the reference's have gone different ways while it was timed.
                self._accuracy.skip(OWN, "the model's state depends on the calls before, which were not the same")
            else:
                self._evidence.audited = leaves
            return False
        self._accuracy.add(answered)
        # By the time that was confirmed, if there is one: who wants to be spared could be slow for once.
        timing = self._evidence.timing
        slow = (self._call_s if timing is None else timing.candidate.median_us / 1e6) > self._budget_s
        if slow:
            self._left_out.append("Further calls on the same input: a call takes too long.")
        right = slow or self._repeat(answered)
        if right:
            # Before the trace puts an input of its own: memory is shared with this one.
            self._share(answered)
            self._trace(answered.inputs, say, slow=slow)
        self._worker.drop([_source(OWN), *self._held])
        self._held = []
        return right

    def _repeat(self, first: Answered) -> bool:
        """Call again on the same input. Returns whether the results were right again."""
        if self._oracle.buffers_move:
            self._left_out.append("Whether results are repeatable: the model's state moves from call to call.")
            return True
        differences = []
        for number in range(1, _REPEATS):
            if self._spec.policy.in_place:
                self._worker.put(_source(OWN), (tuple(first.inputs),))  # the call before may have changed it
            answer = self._answer(first, f"{_output(OWN)} {number}")
            if isinstance(answer, FormError):
                self._evidence.form = answer
                return False
            again, leaves = answer
            if not all(leaf.ok for leaf in leaves):
                self._evidence.unrepeatable = leaves
                return False
            if self._spec.policy.alias_outputs:
                self._worker.drop([self._held.pop()])
            differences.append(_difference(first, again))
        most = max(differences)
        self._found = self._found.model_copy(
            update={"repeat": Repeat(calls=_REPEATS, repeatable=most == 0.0, max_difference=most)}
        )
        return True

    def _trace(self, inputs: list[object], say: Callable[[str], None], *, slow: bool) -> None:
        if slow and self._spec.policy.own_kernel_share is None:
            self._left_out.append("Which kernels run: a call takes too long.")
            return
        if not self._last:
            # A process that was traced once launches more slowly from then on.
            self._left_out.append("Which kernels run: that is seen with the last of the workloads that rank.")
            return
        if self._worker.torch_device.type != "cuda":
            self._left_out.append("Which kernels run: there is no trace of a CPU's work.")
            return
        say("kernels")
        self._worker.put(_source(OWN), tuple(inputs))
        traced = self._worker.trace(_source(OWN), _TRACED, self._spec.limits.call_s)
        if not traced.kernels:
            self._left_out.append(f"Which kernels run: no trace could be had ({traced.note[:200]}).")
            if self._spec.policy.own_kernel_share is not None and self._clean_can_be_traced(inputs):
                self._evidence.trace_prevented = True
            else:
                self._evidence.warnings.append(no_trace_warning(self._spec.policy.own_kernel_share))
            return
        builds = [build for build in self._evidence.builds if build.ok]
        libraries = [build.library for build in builds if build.library is not None]
        kernels = attribute(
            [(kernel.name, kernel.calls, kernel.time_us) for kernel in traced.kernels],
            library=set().union(*(names_in_library(path) for path in libraries)),
            text=names_in_text(self._source),
            compiled=[kernel.name for build in builds for kernel in build.kernels],
            calls=_TRACED,
        )
        if left := kernels[_SHOWN:]:
            us = sum(kernel.time_us for kernel in left)
            self._left_out.append(f"{len(left)} more kernels, each shorter than those shown: {us:.4g} us of a call.")
        share = own_share(kernels)
        self._found = self._found.model_copy(update={"kernels": kernels[:_SHOWN], "own_kernel_share": share})
        self._evidence.warnings += kernel_warnings(kernels, self._evidence)

    def _clean_can_be_traced(self, inputs: list[object]) -> bool:
        """Whether a trace can be had here of a process that has no reason to prevent it."""
        if self._clean is None:
            return False
        self._clean.put(_source(OWN), tuple(inputs))
        try:
            return bool(self._clean.trace(_source(OWN), 1, self._spec.limits.call_s).kernels)
        except WorkerFailure:
            return False

    def _share(self, first: Answered) -> None:
        """Whether outputs share memory with inputs or with each other, seen by writing to all of them."""
        policy = self._spec.policy
        if policy.alias_outputs or policy.in_place:
            return
        self._evidence.shared = shared_memory(
            self._worker, self._oracle, first.expected, _source(OWN), self._held, first.inputs, first.call_seed
        )

    def _probes(self, say: Callable[[str], None]) -> None:
        def spent_s() -> float:
            # What an explanation takes is none of it: else a submission that needs one is spared the other kinds.
            return time.monotonic() - self._accuracy.explained_s

        began, longest = spent_s(), 0.0
        for number, kind in enumerate(self._accuracy.kinds(), 1):
            started = spent_s()
            if started - began + longest > self._budget_s:
                self._accuracy.skip(kind, f"the {self._budget_s:.1f} s for such inputs were spent")
                continue
            say(f"precision, {kind} inputs")
            try:
                self._probe(kind, number)
            except WorkerFailure as failure:
                # Nobody promised it such inputs: how it fails there is told, and decides nothing.
                self._accuracy.skip(kind, f"the submission fails on them ({str(failure)[:200]})")
                self._evidence.warnings.append(fails_warning(kind, failure))
                if failure.kind != "failed" or (failure.failed is not None and failure.failed.category == "cuda"):
                    return
            longest = max(longest, spent_s() - started)

    def _probe(self, kind: str, number: int) -> None:
        try:
            answer = self._call(kind, number)
        except NoMemory as error:
            self._accuracy.release()
            self._accuracy.skip(kind, f"beside the submission {error}")
            self._evidence.warnings.append(no_room_warning(kind))
            return
        except ProblemError as error:
            self._accuracy.skip(kind, f"the reference fails on them ({str(error)[:200]})")
            return
        if answer is None:
            self._accuracy.skip(kind, "there is nothing in the inputs to alter")
            return
        if isinstance(answer, FormError):
            self._accuracy.skip(kind, f"the output has another form there: {answer.message}")
            return
        answered, leaves = answer
        self._worker.drop([_source(kind), *self._held])
        self._held = []
        self._accuracy.add(answered)
        bad = next((leaf for leaf in leaves if not leaf.ok), None)
        if bad is not None and not any(text.startswith(f"{kind}:") for text in self._accuracy.left_out):
            self._evidence.warnings.append(values_warning(kind, bad))

    def _call(self, kind: str, number: int) -> tuple[Answered, list[LeafReport]] | FormError | None:
        """A first call on an input of a kind, which the worker keeps together with the output."""
        inputs_seed, call_seed = self._seeds.of("audit inputs", number), self._seeds.of("audit call", number)
        make = partial(self._accuracy.inputs, kind, inputs_seed, number)
        try:
            inputs, again = make(), make()
            if inputs is None or again is None:
                return None
            expected = self._oracle.expected_of(again, call_seed)
            sample = self._accuracy.sample(expected, number)
        except Exception as error:
            if kind == OWN or not lacks_device_memory(error):
                raise
            raise NoMemory("the device has no memory for them") from None
        key = secrets.randbits(KEY_BITS)
        self._worker.put(_source(kind), masked((tuple(inputs),), key, self._worker.masker))
        nothing = Collected(sample, expected)
        return self._answer(Answered(kind, inputs, call_seed, expected, sample, nothing, make), _output(kind), key)

    def _answer(
        self, asked: Answered, output: str, key: int | None = None
    ) -> tuple[Answered, list[LeafReport]] | FormError:
        """One more call on an input that is there, under the mask of `key`."""
        expected = asked.expected
        # In just the way of a timed call: what knows those from others must not be exact here and coarse there.
        loop = Loop(
            turns=1,
            inputs=_source(asked.kind),
            seeds=(asked.call_seed,),
            specs=tuple(expected.specs),
            mode="device" if self._worker.torch_device.type == "cuda" else "host",
            sealed=True,
            restore_buffers=self._oracle.buffers_move,
        )
        ran = self._worker.time(loop, self._spec.limits.call_s, key)
        self._call_s = ran.held_s + ran.wall_s
        (returned,) = self._worker.times(loop, output).outputs
        output = f"{output}0"  # of the first turn
        self._held.append(output)
        if error := check_form(expected, returned.value, returned.leaves, self._worker.torch_device.type):
            return error
        ours = Collected(asked.sample, expected)

        def pieces() -> Iterator[tuple[int, int, torch.Tensor]]:
            for piece in self._worker.fetch(output, "early", expected.specs):
                ours.add(*piece)
                yield piece

        self._calls += 1
        leaves = compare(expected, pieces(), self._calls)
        self._worker.drop(early=[output])
        return replace(asked, ours=ours), leaves


def _source(kind: str) -> str:
    return f"audit in {kind}"


def _output(kind: str) -> str:
    return f"audit out {kind} "


def _difference(one: Answered, other: Answered) -> float:
    """The largest difference of two results at the chosen elements, over the leaf's root mean square."""
    most = 0.0
    for number, values in one.ours.values.items():
        apart = (values - other.ours.values[number]).abs()
        apart = torch.where(torch.isfinite(apart), apart, 0.0)
        most = max(most, float(apart.max()) / (one.expected.leaves[number].scale or 1.0))
    return most
