"""What the precision audit shows of a function, without a process: it stands where a submission's output would be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness.audit.accuracy import Accuracy, Answered
from harness.audit.findings import Precision
from harness.audit.precision import Collected
from harness.audit.probes import KINDS, OWN
from harness.check.compare import compare
from harness.check.oracle import Oracle
from harness.load.problem import Problem
from harness.seeds import Seeds
from harness.wire.tree import take_apart

CPU = torch.device("cpu")


def shown(
    problem: Problem,
    ours: Callable[..., Any],
    workload: str | None = None,
    *,
    kinds: Sequence[str] = (OWN, *KINDS),
    seed: int = 1 << 70,
) -> tuple[Precision, dict[str, bool]]:
    """The findings, and whether the outputs were within the tolerance on each kind of input. `ours` gets the model and
    the inputs."""
    seeds = Seeds(seed)
    seeds.draw()
    oracle = Oracle(problem, problem.workload(workload, "cpu"), CPU)
    oracle.construct(oracle.init_inputs(1), 1)
    accuracy = Accuracy(problem.spec, oracle, seeds, CPU)
    within = {}
    for number, kind in enumerate(kinds):
        make = partial(accuracy.inputs, kind, 100 + number, number)
        inputs, again, third = make(), make(), make()
        if inputs is None or again is None or third is None:
            continue
        expected = oracle.expected_of(again, 5)
        with torch.no_grad():
            torch.manual_seed(5)
            _, leaves = take_apart(ours(oracle.model, *third), sort_keys=True)
        sample = accuracy.sample(expected, number)
        collected = Collected(sample, expected)
        pieces = [(at, 0, leaf.contiguous().reshape(-1).view(torch.uint8)) for at, leaf in enumerate(leaves)]
        for piece in pieces:
            collected.add(*piece)
        within[kind] = all(leaf.ok for leaf in compare(expected, pieces, 1))
        accuracy.add(Answered(kind, inputs, 5, expected, sample, collected, make))
    return accuracy.result(), within


def problem_of(folder: Path, reference: str, toml: str = "") -> Problem:
    """A problem from text."""
    (folder / "reference.py").write_text("import torch\nfrom torch import nn\n" + reference)
    (folder / "problem.toml").write_text(toml)
    return Problem.load(folder)
