"""One workload of a problem with its reference constructed, and a place for what is found about it."""

from __future__ import annotations

import time
from typing import Any

import torch

from harness.check.compare import Expected, Leaf, compare
from harness.check.oracle import Oracle
from harness.load.problem import Problem, Workload
from harness.report import LeafReport
from harness.seeds import Seeds
from harness.verification.findings import Answer, Cost, Finding, Moved, Room, Severity
from harness.wire.transfer import flat_bytes
from harness.wire.tree import put_together, take_apart

_PIECE = 1 << 24
"""Elements that are compared together: the comparison makes several float64 copies of a piece."""


class Found:
    """What the parts of a verification find, in the order in which they do."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.answers: list[Answer] = []
        self.moved: list[Moved] = []
        self.room: list[Room] = []
        self.costs: list[Cost] = []
        self.left_out: list[str] = []

    def add(self, severity: Severity, code: str, message: str, **evidence: Any) -> None:
        """Note a finding."""
        self.findings.append(Finding(code=code, severity=severity, message=message, evidence=evidence))


class Subject:
    """The reference of one workload on one device, ready to be called again and again from the same state."""

    def __init__(self, problem: Problem, workload: Workload, device: torch.device, seeds: Seeds) -> None:
        """Raises ProblemError for whatever the author's code raises."""
        self.problem, self.workload, self.device, self.seeds = problem, workload, device, seeds
        self.oracle = Oracle(problem, workload, device)
        began = time.monotonic()
        self.oracle.construct(self.oracle.init_inputs(seeds.parameters()), seeds.parameters())
        self.construct_s = time.monotonic() - began
        self.calls_s: list[float] = []
        self._buffers = [(buffer, buffer.clone()) for buffer in self._model_buffers()]

    def inputs(self, number: int) -> list[Any]:
        """The arguments of a numbered call, fresh; the same number makes the same ones."""
        return self.oracle.inputs(self.seeds.of("verify inputs", number))

    def call_seed(self, number: int) -> int:
        """What the generators are set from in a numbered call."""
        return self.seeds.of("verify call", number)

    def expected(self, number: int, inputs: list[Any] | None = None) -> Expected:
        """What the reference returns, on `inputs` (its own from here on) instead of the number's if they are given."""
        given = self.inputs(number) if inputs is None else inputs
        self.restore()
        self._wait()
        began = time.monotonic()
        returned = self.oracle.expected_of(given, self.call_seed(number))
        self._wait()
        self.calls_s.append(time.monotonic() - began)
        return returned

    def restore(self) -> None:
        """Buffers as they were after construction: a call must not depend on the ones before it."""
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)

    def state_bytes(self) -> int:
        """Bytes of parameters and buffers."""
        return sum(tensor.nbytes for tensor in self.oracle.state().values())

    def _model_buffers(self) -> list[torch.Tensor]:
        model = self.oracle.model
        return list(model.buffers()) if isinstance(model, torch.nn.Module) else []

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def held_against(expected: Expected, flats: list[torch.Tensor], trial: int) -> list[LeafReport]:
    """The comparison of a grading, of leaves that are flat and of the expected dtypes and sizes."""

    def pieces() -> Any:
        for number, flat in enumerate(flats):
            for first in range(0, flat.numel(), _PIECE):
                part = flat[first : first + _PIECE].contiguous()
                yield number, first * flat.element_size(), part.view(torch.uint8)

    return compare(expected, pieces(), trial)


def allowed(leaf: Leaf) -> torch.Tensor:
    """The tolerance of each element, float64."""
    return leaf.atol * leaf.scale + leaf.rtol * leaf.flat.to(torch.float64).abs()


def excess(leaf: Leaf, flat: torch.Tensor) -> float:
    """The largest difference over the tolerance there; infinite for a difference where none is allowed, or of NaN or
    infinity and a number."""
    got, want = flat.to(torch.float64), leaf.flat.to(torch.float64)
    if not got.numel():
        return 0.0
    same = (got == want) | (got.isnan() & want.isnan())
    ratio = torch.where(same, 0.0, (got - want).abs() / allowed(leaf))
    return float(ratio.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def with_leaf(inputs: list[Any], number: int, leaf: torch.Tensor) -> list[Any]:
    """The arguments with one of their tensors replaced."""
    skeleton, leaves = take_apart(inputs)
    made: list[Any] = put_together(skeleton, [leaf if at == number else each for at, each in enumerate(leaves)])
    return made


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same to the bit."""
    return (
        one.dtype == other.dtype and one.shape == other.shape and bool(torch.equal(flat_bytes(one), flat_bytes(other)))
    )
