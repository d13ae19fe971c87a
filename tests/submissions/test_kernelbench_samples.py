"""The samples: each loads as it is, passes as its own submission, and its wrong submission is really wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import samples
import torch

from harness.load.problem import Problem
from harness.load.submission import Submission


def run_twice(model: torch.nn.Module, inputs: list[list[Any]]) -> list[Any]:
    """The leaves of the outputs of two calls in a row, random operations seeded alike for every model."""
    leaves: list[Any] = []
    for call, arguments in enumerate(inputs):
        torch.manual_seed(call)
        with torch.no_grad():
            output = model(*copy.deepcopy(arguments))
        leaves += output if isinstance(output, tuple) else [output]
    return leaves


def outside(output: torch.Tensor, expected: torch.Tensor) -> float:
    """The share of elements outside the default tolerance."""
    assert output.shape == expected.shape
    assert output.dtype == expected.dtype
    if not expected.dtype.is_floating_point:
        return float((output != expected).double().mean())
    y, r = output.double(), expected.double()
    tolerance = 1e-4 * r.square().mean().sqrt() + 1e-4 * r.abs()
    return float((~((y - r).abs() <= tolerance)).double().mean())


def leaves_of(problem: Problem, source: str | None) -> list[Any]:
    """What a submission's source, or the reference for None, gives for two fixed inputs."""
    reference = problem.module(problem.workload(None, "cpu"))
    torch.manual_seed(7)
    inputs = [reference.get_inputs() for _ in range(2)]
    torch.manual_seed(8)
    model = reference.Model(*reference.get_init_inputs())
    if source is not None:
        namespace: dict[str, Any] = {"__name__": "sample"}
        exec(compile(source, "sample", "exec"), namespace)
        weights = model.state_dict()
        model = namespace["ModelNew"](*reference.get_init_inputs())
        model.load_state_dict(weights, strict=True)
    return run_twice(model, inputs)


def test_there_are_ten_samples_each_with_a_wrong_submission() -> None:
    assert len(samples.NAMES) == 10
    assert all(samples.wrong_path(name).is_file() for name in samples.NAMES)


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_sample_passes_as_its_own_submission(name: str) -> None:
    problem = Problem.load(samples.problem_path(name))
    submission = Submission.from_source(samples.identity_source(problem.reference_source), name)
    expected = leaves_of(problem, None)
    assert all(
        outside(output, leaf) == 0 for output, leaf in zip(leaves_of(problem, submission.source), expected, strict=True)
    )


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_wrong_sample_is_outside_the_tolerance_somewhere(name: str) -> None:
    problem = Problem.load(samples.problem_path(name))
    submission = Submission.load(samples.wrong_path(name))
    expected = leaves_of(problem, None)
    shares = [
        outside(output, leaf) for output, leaf in zip(leaves_of(problem, submission.source), expected, strict=True)
    ]
    assert max(shares) > 0
