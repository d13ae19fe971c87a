"""The precision part of the audit: our output, the reference's and a float64 one, on several kinds of input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from harness.audit.findings import LeafPrecision, Precision
from harness.audit.formats import MANTISSA, emulated, precision_of
from harness.audit.oracle64 import Call, Kept, WideOracle
from harness.audit.precision import LEAST, Coarse, Collected, LeafErrors, Runs, Sample, judge_leaf, with_sizes
from harness.audit.probes import KINDS, OWN, probe
from harness.audit.wide import NoMemory, NotWide, Where
from harness.check.compare import Expected
from harness.check.oracle import Oracle
from harness.load.spec import ProblemSpec
from harness.machine.lacking import lacks_device_memory
from harness.seeds import Seeds
from harness.wire.tree import take_apart

_EXPLAIN_S = 6.0
"""Seconds for runs that explain a large ratio, on the problem's own inputs and once more on all others together: only
a submission that has one costs them, and they are no part of the time that the probes may take."""
_KEPT_BYTES = 1 << 29
"""Of host memory that answers take which are judged later: a leaf of an answer takes 6 MiB at most."""
_NOT_FINITE = "the reference returns NaN or infinity there"


@dataclass(frozen=True)
class Answered:
    """One kind of input, the reference's answer, and ours as far as it is looked at."""

    kind: str
    inputs: list[object]
    call_seed: int
    expected: Expected
    sample: Sample
    ours: Collected
    again: Callable[[], list[object] | None]
    """Makes the inputs once more."""
    reference: dict[int, torch.Tensor] | None = None
    """The chosen elements of the reference's answer where `expected` has only its form, and there are no inputs."""

    def for_later(self) -> Answered:
        """What it takes to judge it later, on the host: the chosen elements, and neither inputs nor whole outputs."""
        host = torch.device("cpu")
        leaves = [replace(leaf, flat=torch.empty_like(leaf.flat, device="meta")) for leaf in self.expected.leaves]
        return replace(
            self,
            inputs=[],
            expected=replace(self.expected, leaves=leaves, judge=None),  # whose check has inputs of its own
            sample=self.sample.on(host),
            ours=self.ours.on(host),
            reference=_moved(self.sample.of([leaf.flat for leaf in self.expected.leaves]), host),
        )

    def on(self, device: torch.device) -> Answered:
        """The same on a device again, with its inputs. Raises NoMemory."""
        try:
            assert self.reference is not None
            inputs = self.again()
            assert inputs is not None  # it was asked with these
            ours, reference = self.ours.on(device), _moved(self.reference, device)
            return replace(self, inputs=inputs, sample=self.sample.on(device), ours=ours, reference=reference)
        except Exception as error:
            if not lacks_device_memory(error):
                raise
            raise NoMemory("the device has no memory for its inputs") from None

    @property
    def nbytes(self) -> int:
        """Of the chosen elements and their places."""
        found = [*self.sample.places.values(), *self.ours.values.values(), *(self.reference or {}).values()]
        return sum(tensor.nbytes for tensor in found)


class Accuracy:
    """Collects what each kind of input shows about the precision of one submission."""

    def __init__(
        self, spec: ProblemSpec, oracle: Oracle, seeds: Seeds, device: torch.device, *, postpones: bool = False
    ) -> None:
        """`postpones`: whether what there is no memory for is judged by `judge_postponed`, rather than left out."""
        self._spec, self._oracle, self._seeds, self._device = spec, oracle, seeds, device
        self._postpones = postpones
        self._leaves: list[LeafPrecision] = []
        self.left_out: list[str] = []
        self._wide: WideOracle | None = None
        self._explained_s = {True: 0.0, False: 0.0}  # by whether the inputs are the problem's own
        self._kept: list[Answered] = []
        """Answers that there was no memory to judge while the submission held some, for later."""
        self.possible = MANTISSA.get(spec.precision, 0) > MANTISSA["fp8"]
        """Whether there is anything to find out by further calls."""
        if not self.possible:
            self.left_out.append(f"The problem asks for {spec.precision}: only the tolerance counts.")

    def sample(self, expected: Expected, number: int) -> Sample:
        """The elements to look at, which nobody knows before the call has returned."""
        return Sample.draw(expected, self._seeds.of("audit sample", number))

    def kinds(self) -> Iterator[str]:
        """The kinds of input beside the problem's own, as long as they can still tell anything."""
        for kind in KINDS:
            if any(leaf.below for leaf in self._leaves):
                self.left_out.append("Other kinds of input: those that were tried have shown enough.")
                return
            if self._kept and self._oracle.buffers_move:
                self.left_out.append("Other kinds of input: calls on them would move the model's state on.")
                return
            if self.possible:
                yield kind

    def inputs(self, kind: str, inputs_seed: int, number: int) -> list[object] | None:
        """Arguments of one kind, None where there is nothing to alter."""
        inputs = self._oracle.inputs(inputs_seed)
        return inputs if kind == OWN else probe(kind, inputs, self._seeds.of("audit probe", number))

    @property
    def explained_s(self) -> float:
        """Seconds that the explanation of large ratios has taken so far."""
        return sum(self._explained_s.values())

    def skip(self, kind: str, why: str) -> None:
        """Note that a kind of input is left out."""
        self.left_out.append(f"{kind}: {why}.")

    def add(self, answer: Answered) -> None:
        """Take one answer."""
        if not self.possible:
            return
        if self._kept:
            self._keep(answer)  # there was too little for another one
            return
        lacking = None
        try:
            self._leaves += self._judged(answer)
        except NoMemory as error:
            lacking = str(error)
        except NotWide as error:
            self._not_wide(answer.kind, str(error))
        if lacking is not None:
            self.release()  # here, where no exception holds its tensors any more
            if self._postpones:
                self._keep(answer)
            else:
                self._not_wide(answer.kind, lacking)

    @property
    def postponed(self) -> bool:
        """Whether there are answers that there was no memory to judge."""
        return bool(self._kept)

    def judge_postponed(self, budget_s: float) -> None:
        """Those, now that the submission holds nothing: whoever takes memory is not spared for it. `budget_s`: what
        inputs beside the problem's own may take together, explanations not counted."""
        kept, self._kept, self._postpones = self._kept, [], False
        self.release()
        spent_s = longest = 0.0
        for answer in kept:
            if any(leaf.below for leaf in self._leaves):
                self.left_out.append("Other kinds of input: those that were tried have shown enough.")
                return
            if not self.possible:
                return
            if spent_s + longest > budget_s:
                self.skip(answer.kind, f"the {budget_s:.1f} s for such inputs were spent")
                continue
            began = time.monotonic() - self.explained_s
            try:
                self._leaves += self._judged(answer.on(self._device))
            except NotWide as error:
                self._not_wide(answer.kind, str(error))
            if answer.kind != OWN:
                took_s = time.monotonic() - self.explained_s - began
                spent_s, longest = spent_s + took_s, max(longest, took_s)

    def _keep(self, answer: Answered) -> None:
        later = answer.for_later()
        assert later.reference is not None
        if answer.kind != OWN and not _as_finite(later.reference.values()):
            self.skip(answer.kind, _NOT_FINITE)
        elif sum(each.nbytes for each in (*self._kept, later)) > _KEPT_BYTES:
            self.skip(answer.kind, "its output has too many leaves to keep it until there is memory to judge it")
        elif self._oracle.buffers_move and answer.kind != OWN:
            self.skip(answer.kind, "there was no memory to judge it before the model's state moved on")
        else:
            self._kept.append(later)

    def _not_wide(self, kind: str, why: str) -> None:
        text = f"the reference can't be run in float64, because {why}"
        if kind == OWN:
            self.possible = False
            self.left_out.append(f"Not judged: {text}.")
        else:
            self.skip(kind, text)

    def result(self) -> Precision:
        """What all of it shows."""
        leaves = with_sizes(self._leaves)
        return Precision(
            asked=self._spec.precision,
            policy=self._spec.precision_policy,
            below=any(leaf.below for leaf in leaves),
            leaves=leaves,
            left_out=self.left_out,
        )

    def release(self) -> None:
        """Give the float64 model's memory back."""
        self._wide = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _judged(self, answer: Answered) -> list[LeafPrecision]:
        if not answer.sample.places:
            self.possible = False
            raise NotWide(f"no leaf of its output has {LEAST} floating-point elements")
        if self._wide is None:
            self._wide = WideOracle(self._oracle, self._device, strict=self._postpones)
        wide_oracle, expected, sample = self._wide, answer.expected, answer.sample
        wide = sample.of(wide_oracle.outputs(answer.inputs, answer.call_seed, expected))
        reference = answer.reference or sample.of([leaf.flat for leaf in expected.leaves])
        if answer.kind != OWN and not _as_finite([*wide.values(), *reference.values()]):
            self.skip(answer.kind, _NOT_FINITE)
            return []
        of = Call(answer.inputs, answer.call_seed, expected, sample, wide)
        centred = _centred(answer.inputs)
        explanations: dict[str, Kept] = {}
        found = []
        for number in sample.places:
            leaf = expected.leaves[number]
            own = precision_of(leaf.spec.dtype)
            assert own is not None
            asked = min(own, self._spec.precision, key=lambda name: MANTISSA[name])
            if asked == "fp8":
                continue
            allowed = None
            if MANTISSA[asked] < MANTISSA[own]:
                # Tf32 is what products take; results stay fp32. The others are also formats to keep numbers in.
                where: Where = "products" if asked == "tf32" and wide_oracle.products else "results"
                flats = wide_oracle.coarse(emulated(asked), where, answer.inputs, answer.call_seed, expected)
                allowed = sample.of(flats)[number] - wide[number]
            errors = LeafErrors.of(
                leaf.path,
                answer.kind,
                leaf.spec.dtype,
                answer.ours.values[number],
                reference[number],
                wide[number],
            )
            if asked not in explanations:
                explanations[asked] = Kept(partial(self._explain, asked, answer.kind, of, centred))
            began = time.monotonic()
            noise = partial(wide_oracle.noise, of=of, seed=self._seeds.of("audit noise", number))
            # What is allowed to be coarse has no least accurate honest way that is known.
            sums = partial(self._plain_sums, asked if allowed is None else "any", answer.kind, of, number)
            found.append(judge_leaf(number, errors, allowed, Runs(explanations[asked], noise, sums, centred)))
            self._explained_s[answer.kind == OWN] += time.monotonic() - began
        return found

    def _explain(self, asked: str, kind: str, of: Call, centred: bool) -> Iterator[Coarse]:
        assert self._wide is not None
        until = self._until(kind)
        yield from self._wide.coarser(asked, of, until, centred=centred)
        if time.monotonic() > until:
            self.skip(kind, "the time for holding its errors against coarser arithmetics ran out")

    def _plain_sums(self, asked: str, kind: str, of: Call, number: int) -> list[dict[int, torch.Tensor]]:
        assert self._wide is not None
        seed = self._seeds.of("audit sums", number)
        found = self._wide.plain_sums(asked, of, seed, self._until(kind) + _EXPLAIN_S)
        if found is None:
            self.skip(kind, "the time for holding its errors against those of plain sums ran out")
        return found or []

    def _until(self, kind: str) -> float:
        return time.monotonic() + max(0.0, _EXPLAIN_S - self._explained_s[kind == OWN])


def _centred(inputs: list[object]) -> bool:
    """Whether the floating-point inputs have no common sign."""
    leaves = [leaf for leaf in take_apart(inputs)[1] if leaf.is_floating_point() and leaf.numel()]
    return all(
        float(leaf.double().mean().abs()) <= 0.1 * float(leaf.double().square().mean().sqrt()) for leaf in leaves
    )


def _moved(values: dict[int, torch.Tensor], device: torch.device) -> dict[int, torch.Tensor]:
    return {number: tensor.to(device) for number, tensor in values.items()}


def _as_finite(values: Iterable[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(each).all()) for each in values)
