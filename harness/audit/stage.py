"""The audit stage: further calls of a submission that is right, on inputs that show what results and times don't.

    own inputs    a fresh input of the problem, as in a trial
    probes        inputs made from it (probes.py), as many kinds as the time allows

The worker is asked for nothing new: it gets inputs, is called and hands out bytes, as in the check stage. So what is
found here rests on bytes that the grader holds against results of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from harness.audit.accuracy import Accuracy, Answered
from harness.audit.findings import Audit
from harness.audit.precision import Collected
from harness.audit.probes import OWN
from harness.compare import FormError, check_form, compare
from harness.evidence import Evidence
from harness.oracle import Oracle
from harness.problem import ProblemError
from harness.report import LeafReport, Warning_
from harness.seeds import Seeds
from harness.spec import ProblemSpec
from harness.workers import Worker, WorkerFailure

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
        elapsed_s: float,
    ) -> None:
        """`elapsed_s`: what the grading has taken so far."""
        self._worker, self._oracle, self._seeds, self._evidence = worker, oracle, seeds, evidence
        self._spec = spec
        self._budget_s = max(_LEAST_S, _SHARE * elapsed_s)
        self._accuracy = Accuracy(spec, oracle, seeds, worker.torch_device)

    def run(self, say: Callable[[str], None]) -> None:
        """Look at everything; what was found goes to the evidence."""
        try:
            say("precision, own inputs")
            if self._own():
                self._probes(say)
        finally:
            self._accuracy.release()
        precision = self._accuracy.result()
        self._evidence.audit = Audit(precision=precision)
        if precision.below and precision.policy == "flag":
            self._evidence.warnings.append(_below_warning(precision.asked))

    def _own(self) -> bool:
        """A call on the problem's own inputs. Returns whether the audit can go on."""
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
        return True

    def _probes(self, say: Callable[[str], None]) -> None:
        began, longest = time.monotonic(), 0.0
        for number, kind in enumerate(self._accuracy.kinds(), 1):
            started = time.monotonic()
            if started - began + longest > self._budget_s:
                self._accuracy.skip(kind, f"the {self._budget_s:.1f} s for such inputs were spent")
                continue
            say(f"precision, {kind} inputs")
            try:
                self._probe(kind, number)
            except WorkerFailure as failure:
                # Nobody promised it such inputs: how it fails there is told, and decides nothing.
                self._accuracy.skip(kind, f"the submission fails on them ({str(failure)[:200]})")
                self._evidence.warnings.append(_fails_warning(kind, failure))
                if failure.kind != "failed" or (failure.failed is not None and failure.failed.category == "cuda"):
                    return
            longest = max(longest, time.monotonic() - started)

    def _probe(self, kind: str, number: int) -> None:
        try:
            answer = self._call(kind, number)
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
        self._accuracy.add(answered)
        bad = next((leaf for leaf in leaves if not leaf.ok), None)
        if bad is not None and not any(text.startswith(f"{kind}:") for text in self._accuracy.left_out):
            self._evidence.warnings.append(_values_warning(kind, bad))

    def _call(self, kind: str, number: int) -> tuple[Answered, list[LeafReport]] | FormError | None:
        inputs_seed, call_seed = self._seeds.of("audit inputs", number), self._seeds.of("audit call", number)
        inputs = self._accuracy.inputs(kind, inputs_seed, number)
        again = self._accuracy.inputs(kind, inputs_seed, number)
        if inputs is None or again is None:
            return None
        expected = self._oracle.expected_of(again, call_seed)
        source, output = f"audit in {kind}", f"audit out {kind}"
        self._worker.put(source, tuple(inputs))
        returned = self._worker.call(
            source,
            output,
            seed=call_seed,
            limit_s=self._spec.limits.call_s,
            poison=[spec.nbytes for spec in expected.specs] or [1 << 20],
        )
        if error := check_form(expected, returned.value, returned.leaves, self._worker.torch_device.type):
            return error
        sample = self._accuracy.sample(expected, number)
        ours = Collected(sample, expected)

        def pieces() -> Iterator[tuple[int, int, object]]:
            for piece in self._worker.fetch(output, "early", expected.specs):
                ours.add(*piece)
                yield piece

        leaves = compare(expected, pieces(), number + 1)  # type: ignore[arg-type]
        self._worker.drop([source, output])
        return Answered(kind, inputs, call_seed, expected, sample, ours), leaves


def _below_warning(asked: str) -> Warning_:
    return Warning_(
        code="precision.below_spec",
        message=f"The submission computes less accurately than {asked}, which the problem asks for and does not insist "
        "on; audit.precision says by how much.",
    )


def _fails_warning(kind: str, failure: WorkerFailure) -> Warning_:
    return Warning_(
        code="precision.probe_failed",
        message=f"On inputs made from the problem's own ({kind}) the submission failed: {str(failure)[:300]}. The "
        "problem does not promise to give such inputs, so this decides nothing.",
        evidence={"inputs": kind},
    )


def _values_warning(kind: str, leaf: LeafReport) -> Warning_:
    return Warning_(
        code="precision.probe_values",
        message=f"On inputs made from the problem's own ({kind}) {leaf.path} is outside the tolerance in "
        f"{leaf.outside} elements. The problem does not promise to give such inputs, so this decides nothing; look "
        "whether the submission leaves something out.",
        evidence={"inputs": kind, **leaf.model_dump(mode="json")},
    )
