"""What is reported of blocks that several processes were measured in by turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.clock.offset import Offset
from harness.clock.plan import Goal, Plan
from harness.clock.processes import Processes
from harness.clock.stage import TimeStage

QUICK_US, SLOW_US, REFERENCE_US = 4.5, 5.5, 10.0


def measured(slow: int, count: int = 4) -> tuple[Any, Plan]:
    """A stage whose blocks are measured; `slow` of the processes take a microsecond more."""
    stage: Any = object.__new__(TimeStage)
    bench = SimpleNamespace(mode="device", follow=lambda _: None)
    stage._device, stage._others = torch.device("cuda"), 0.0
    stage._baselines, stage._processes = {"reference": bench}, Processes(bench)  # type: ignore[arg-type]
    for _ in range(count - 1):
        stage._processes.add(SimpleNamespace(**vars(bench)))
    stage._offsets = {"device": Offset(0.0, 0.0)}
    plan = Plan(Goal(), {"candidate": 0.001, "reference": 0.001})
    plan.step_us = {"candidate": 0.0, "reference": 0.0}
    noise = np.random.default_rng(1)
    for number in range(2 * count):
        us = SLOW_US if number % count < slow else QUICK_US
        plan.blocks["candidate"].append((us + 0.01 * noise.standard_normal(10)).tolist())
        plan.blocks["reference"].append((REFERENCE_US + 0.01 * noise.standard_normal(10)).tolist())
    return stage, plan


@pytest.mark.parametrize("slow", [0, 1, 2, 3, 4])
def test_it_is_the_mean_of_the_processes_however_few_are_slow(slow: int) -> None:
    stage, plan = measured(slow)
    truth_us = QUICK_US + slow / 4
    found = stage._measurement("candidate", plan, 1.0)
    assert found.median_us == pytest.approx(truth_us, abs=0.02)
    assert len(found.process_medians_us) == 4
    low, high = found.ci95_us
    assert low <= found.median_us <= high
    speedup, (least, most) = stage._speedup(plan, "reference")
    assert speedup == pytest.approx(REFERENCE_US / truth_us, rel=0.01)
    assert least <= speedup <= most


def test_of_one_process_it_is_the_median() -> None:
    stage, plan = measured(0, count=1)
    plan.blocks["candidate"] = [[4.0] * 9 + [9.0] * 10 + [5.0]]
    found = stage._measurement("candidate", plan, 1.0)
    assert found.median_us == pytest.approx(7.0)
    assert found.process_medians_us == []
