"""The trusted side's own model: parameters, inputs and expected outputs, made here and nowhere else."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy
import torch

from harness.check.compare import Expected, Judge, Unusable
from harness.load.problem import Problem, ProblemError, Workload
from harness.wire.generators import seed_torch
from harness.wire.transfer import TensorSpec
from harness.wire.tree import TreeError, put_together, take_apart


class Oracle:
    """The reference model of one workload on one device."""

    def __init__(self, problem: Problem, workload: Workload, device: torch.device) -> None:
        self._problem = problem
        self._device = device
        self._module = problem.module(workload)
        self.destinations = [(name, TensorSpec(dtype, shape)) for name, dtype, shape in self._module.destinations()]
        """The outputs that a submission in destination-passing style is given."""
        self._model: Any = None
        self._initial_buffers: dict[str, torch.Tensor] = {}
        self.draws = False
        """Whether a call of the reference draws random numbers."""
        self.call_bytes = self.output_bytes = 0
        """Bytes of the inputs and outputs of a call, and of its outputs alone."""
        self.output_specs: list[TensorSpec] = []
        """The tensors of an output, as the last call gave them."""
        self.buffers_move = False
        """Whether a call of the reference changes its buffers, as BatchNorm in training mode does."""
        self._keeping = False

    @contextlib.contextmanager
    def keeping_generators(self) -> Iterator[None]:
        """Inside, the caller's random number generators are put back once, at the end: for many short calls."""
        with self._generators_kept():
            self._keeping = True
            try:
                yield
            finally:
                self._keeping = False

    def _generators_kept(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext() if self._keeping else _generators_kept(self._device)

    @contextlib.contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
        with self._generators_kept():
            _set_generators(seed, self._device)
            yield

    def init_inputs(self, seed: int) -> list[Any]:
        """The constructor's arguments, on the CPU."""
        with self._seeded(seed):
            return self._passable(self._module.get_init_inputs(), torch.device("cpu"), "get_init_inputs")

    def construct(self, arguments: Sequence[Any], seed: int) -> None:
        """Build the reference model on the CPU from a seed and move it to the device."""
        with self._seeded(seed), self._module.blaming("Model(...)"):
            model = self._module.Model(*arguments)
            self._model = model.to(self._device) if isinstance(model, torch.nn.Module) else model
        self._initial_buffers = {name: buffer.clone() for name, buffer in self._buffers()}

    def state(self) -> dict[str, torch.Tensor]:
        """The model's parameters and buffers by name, on the device."""
        if not isinstance(self._model, torch.nn.Module):
            return {}
        return {key: value for key, value in self._model.state_dict().items() if isinstance(value, torch.Tensor)}

    def state_specs(self) -> dict[str, TensorSpec]:
        """What room the state takes."""
        return {key: TensorSpec.of(value) for key, value in self.state().items()}

    def inputs(self, seed: int) -> list[Any]:
        """Fresh arguments of one call, made on the device."""
        return self.pool([seed])[0]

    def pool(self, seeds: Sequence[int]) -> list[list[Any]]:
        """Fresh arguments for each seed."""
        made = []
        with self._generators_kept(), torch.device(self._device), _nothing_uninitialised():
            for seed in seeds:
                _set_generators(seed, self._device)
                made.append(self._passable(self._module.get_inputs(), self._device, "get_inputs"))
        return made

    def expected(self, inputs_seed: int, call_seed: int, *, restore_buffers: bool = False) -> Expected:
        """What the reference returns for the inputs of a seed, which it gets a copy of its own of and may change."""
        if restore_buffers:
            for name, buffer in self._buffers():
                buffer.copy_(self._initial_buffers[name])
        return self.expected_of(self.inputs(inputs_seed), call_seed)

    def expected_of(self, inputs: list[Any], call_seed: int) -> Expected:
        """What the reference returns for these inputs, which are its own from here on."""
        # Before the reference runs, which may change what it is given.
        judge = self._judge(inputs) if self._module.has_judge else None
        before = [(buffer, buffer._version) for _, buffer in self._buffers()]
        with self._seeded(call_seed), torch.no_grad(), self._module.blaming("Model.forward"):
            drawn = _generator_state(self._device)
            returned = self._model(*inputs)
            self.draws |= _generator_state(self._device) != drawn
        self.buffers_move |= any(buffer._version != version for buffer, version in before)
        try:
            expected = Expected.of(returned, self._problem.spec.tolerance, judge)
            if judge is not None and not expected.nbytes:
                raise Unusable(
                    "it returns no tensor with elements, and its own check is only asked about such; a task that works "
                    "in place or returns a number has to return a tensor"
                )
            inputs_bytes = sum(leaf.nbytes for leaf in take_apart(inputs)[1])
            self.call_bytes = max(self.call_bytes, expected.nbytes + inputs_bytes)
            self.output_bytes = max(self.output_bytes, expected.nbytes)
            self.output_specs = expected.specs
            return expected
        except (Unusable, TreeError) as error:
            raise ProblemError(f"The reference of {self._problem.id} can't be graded against: {error}.") from error

    def _judge(self, inputs: list[Any]) -> Judge:
        """The author's own check of outputs for these inputs. It gets copies: whatever it does, it does to those."""
        skeleton, leaves = take_apart(inputs)
        kept = [leaf.clone() for leaf in leaves]

        def judge(output: Any, expected: Any) -> str | None:
            with self._generators_kept(), torch.no_grad(), torch.device(self._device):
                given = put_together(skeleton, [leaf.clone() for leaf in kept])
                return self._module.judge(given, output, expected)

        return judge

    @property
    def model(self) -> Any:
        """The reference model itself."""
        return self._model

    def returned(
        self, model: Any, inputs: list[Any], call_seed: int, within: AbstractContextManager[Any] | None
    ) -> Any:
        """What another form of the reference model returns for these inputs; `within` is entered around the call."""
        with self._seeded(call_seed), torch.no_grad(), within or contextlib.nullcontext():
            return model(*inputs)

    def _buffers(self) -> list[tuple[str, torch.Tensor]]:
        return list(self._model.named_buffers()) if isinstance(self._model, torch.nn.Module) else []

    def _passable(self, values: Sequence[Any], device: torch.device, source: str) -> list[Any]:
        """The values with every tensor plain, detached and on the device. Raises ProblemError for what can't travel."""
        try:
            skeleton, leaves = take_apart(list(values))
            moved = [leaf.detach().to(device) for leaf in leaves]
            passed: list[Any] = put_together(skeleton, moved)
        except TreeError as error:
            raise ProblemError(
                f"What {source} of {self._problem.id} returns can't be handed to a submission: {error}. "
                "Use tensors, numbers, strings, None, and lists, tuples and dicts of these."
            ) from error
        return passed


def _generator_state(device: torch.device) -> bytes:
    state = torch.get_rng_state()
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else state[:0]
    return bytes(torch.cat([state, on_device]).numpy().tobytes())


@contextlib.contextmanager
def _nothing_uninitialised() -> Iterator[None]:
    """Within it `torch.empty` is filled with NaN or the largest integer.

    An author may give room for the output as an input. What lay there before could be the expected output, which would
    then be handed to the submission.
    """
    before = torch.get_deterministic_debug_mode()
    deterministic: Any = torch.utils.deterministic  # whose stub lacks the switch
    filling = deterministic.fill_uninitialized_memory
    # Not `use_deterministic_algorithms`, which imports torch's compiler: seconds.
    torch.set_deterministic_debug_mode("warn")
    deterministic.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an operator that has no deterministic form is the author's business
            yield
    finally:
        deterministic.fill_uninitialized_memory = filling
        torch.set_deterministic_debug_mode(before)


def _set_generators(seed: int, device: torch.device) -> None:
    """Every generator that an author may use, set from a seed."""
    seed_torch(seed, device)
    random.seed(seed)
    numpy.random.seed(seed % (1 << 32))


@contextlib.contextmanager
def _generators_kept(device: torch.device) -> Iterator[None]:
    """Put the generators back afterwards: they are the caller's."""
    python, arrays = random.getstate(), numpy.random.get_state()
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(arrays)
