"""Which workload is called: one that is small, since a kernel under compute-sanitizer takes some hundred times as
long, and not so small that one thread does all there is to do."""

from __future__ import annotations

import torch

from harness.load.problem import DeviceKind, Problem, Workload
from harness.wire.tree import take_apart

ENOUGH = 4096
"""Elements of inputs and parameters from which on there is work for several blocks."""


def choose_workload(problem: Problem, name: str | None, kind: DeviceKind) -> tuple[Workload, str]:
    """The workload, and why it. Raises ProblemError for a name that is not known."""
    if name is not None:
        return problem.workload(name, kind), "named"
    default = problem.workload(None, kind)
    names = [name for name, spec in problem.spec.workloads.items() if spec.device in ("any", kind)]
    sized = []
    for each in dict.fromkeys([*names, default.name]):
        workload = problem.workload(each, kind)
        if (elements := _elements(problem, workload)) is not None:
            sized.append((elements, workload))
    if not sized:
        return default, "the default; no other's size is known"
    enough = [(elements, workload) for elements, workload in sized if elements >= ENOUGH]
    if enough:
        elements, workload = min(enough, key=lambda pair: pair[0])
        return workload, f"the smallest of at least {ENOUGH} elements, {elements} in inputs and parameters"
    elements, workload = max(sized, key=lambda pair: pair[0])
    return workload, f"the largest, none has {ENOUGH} elements, {elements} in inputs and parameters"


def _elements(problem: Problem, workload: Workload) -> int | None:
    """Elements of a workload's inputs and parameters, none of which are made; None where that can't be told."""
    try:
        module = problem.module(workload)
        with torch.device("meta"):
            _, leaves = take_apart(list(module.get_inputs()))
            model = module.Model(*module.get_init_inputs())
    except Exception:  # noqa: BLE001 - an author's code may look at values, which a tensor without memory has none of
        return None
    state = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    return sum(leaf.numel() for leaf in [*leaves, *state])
