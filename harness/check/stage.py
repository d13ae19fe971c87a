"""The check stage: fresh inputs every trial, outputs compared twice, inputs looked at again.

for each trial:  inputs -> call -> early copy of the outputs -> inputs unchanged?
after the last:  the outputs themselves, of every call that is still held
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness.check.compare import Expected, check_form, compare, worst
from harness.check.oracle import Oracle
from harness.judge.evidence import Evidence
from harness.load.spec import Policy
from harness.machine.spare import spare_memory
from harness.report import LeafReport
from harness.seeds import Seeds
from harness.wire.transfer import TensorSpec, flat_bytes
from harness.wire.tree import paths, take_apart
from harness.workers.worker import Worker

_HELD_SHARE = 0.25
"""Of the free memory, for outputs that are held until the last call has returned."""


class Checker:
    """Runs the trials of one submission."""

    def __init__(
        self,
        worker: Worker,
        oracle: Oracle,
        seeds: Seeds,
        evidence: Evidence,
        *,
        model: str,
        call_limit_s: float,
        policy: Policy,
    ) -> None:
        self._worker = worker
        self._oracle = oracle
        self._seeds = seeds
        self._evidence = evidence
        self._model = model
        self._call_limit_s = call_limit_s
        self._policy = policy
        self._early: list[list[LeafReport]] = []
        self._live: list[list[LeafReport]] = []
        self._mutated: list[LeafReport] = []
        self.trials = 0

    def run(self, trials: int, on_trial: Callable[[int], None]) -> None:
        """Run the trials; stops at the first that is wrong, since one is enough."""
        held: dict[int, Expected] = {}
        try:
            for trial in range(trials):
                on_trial(trial)
                expected = self._trial(trial)
                if expected is None:
                    return
                held[trial] = expected
                self.trials += 1
                if not all(leaf.ok for leaf in self._early[-1]):
                    break
                while len(held) > max(2, self._room_for(expected)):
                    self._release(held)
            while held:
                self._release(held)
        finally:
            if self._early:
                self._evidence.early = worst(self._early)
            if self._live:
                self._evidence.live = worst(self._live)
            self._evidence.mutated = self._mutated

    def _trial(self, trial: int) -> Expected | None:
        name = str(trial)
        inputs_seed, call_seed = (
            self._seeds.of(f"{self._model} inputs", trial),
            self._seeds.of(f"{self._model} call", trial),
        )
        expected = self._oracle.expected(inputs_seed, call_seed)
        inputs = self._oracle.inputs(inputs_seed)
        self._worker.put(f"in{name}", tuple(inputs))
        sizes = [spec.nbytes for spec in expected.specs]
        returned = self._worker.call(
            f"in{name}",
            f"out{name}",
            model=self._model,
            seed=call_seed,
            limit_s=self._call_limit_s,
            poison=sizes or [1 << 20],
        )
        self._evidence.form = check_form(expected, returned.value, returned.leaves, self._worker.torch_device.type)
        if self._evidence.form is not None:
            return None
        self._early.append(compare(expected, self._worker.fetch(f"out{name}", "early", expected.specs), trial + 1))
        if not self._policy.in_place:
            self._look_at_inputs(name, inputs, trial)
        self._worker.drop([f"in{name}"], early=[f"out{name}"])
        return expected

    def _look_at_inputs(self, name: str, inputs: list[object], trial: int) -> None:
        skeleton, tensors = take_apart(tuple(inputs))
        places = paths(skeleton, "inputs")
        specs = [TensorSpec.of(tensor) for tensor in tensors]
        flats = [flat_bytes(tensor, in_storage_order=True) for tensor in tensors]
        changed: dict[int, tuple[int, int]] = {}
        for index, first, data in self._worker.fetch(f"in{name}", "input", specs):
            pristine = flats[index][first : first + data.numel()]
            if not torch.equal(data, pristine):
                differing = (data != pristine).view(-1, tensors[index].element_size()).any(dim=1)
                count, at = changed.get(
                    index, (0, first // tensors[index].element_size() + int(differing.int().argmax()))
                )
                changed[index] = (count + int(differing.sum()), at)
        for index, (count, _) in changed.items():
            self._mutated.append(
                LeafReport(
                    path=places[index],
                    shape=list(specs[index].shape),
                    dtype=specs[index].dtype,
                    ok=False,
                    atol=0.0,
                    rtol=0.0,
                    outside=count,
                    fraction_outside=count / max(1, tensors[index].numel()),
                    worst_trial=trial + 1,
                )
            )

    def _release(self, held: dict[int, Expected]) -> None:
        trial = next(iter(held))
        expected = held.pop(trial)
        # Where outputs may share memory, an earlier one is gone when a later call has returned.
        if not self._policy.alias_outputs:
            self._live.append(compare(expected, self._worker.fetch(f"out{trial}", "live", expected.specs), trial + 1))
        self._worker.drop([f"out{trial}"])

    def _room_for(self, expected: Expected) -> int:
        """How many outputs may be held, here and in the worker."""
        device = self._worker.torch_device
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
        else:
            free = spare_memory()
        return int(_HELD_SHARE * free / (2 * max(1, expected.nbytes)))
