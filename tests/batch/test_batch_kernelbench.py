"""KernelBench's eval_results.json, from the results of a batch."""

from __future__ import annotations

from typing import Any

import pytest
from batch_fakes import report

from harness.batch.kernelbench import NotKernelBench, eval_results
from harness.batch.store import Result
from harness.report import Verdict


def result(identifier: str, problem: str = "23_Softmax", level: int | None = 1, **fields: Any) -> Result:
    return Result(id=identifier, problem=problem, level=level, attempt=1, key="k", report=report(**fields))


def test_samples_are_listed_by_problem() -> None:
    right = result("level_1_problem_23_sample_4_kernel.py", verdict=Verdict.ACCEPTED, speedup=2.0)
    wrong = result("other.py", verdict=Verdict.WRONG_ANSWER)
    broken = result("level_1_problem_7_sample_0_kernel.py", "7_Add", verdict=Verdict.COMPILE_ERROR)
    found = eval_results([right, wrong, broken])
    assert list(found) == ["7", "23"]
    (first, second) = found["23"]
    assert {key: first[key] for key in ("sample_id", "compiled", "correctness", "runtime")} == {
        "sample_id": 4,
        "compiled": True,
        "correctness": True,
        "runtime": pytest.approx(0.1),
    }
    assert first["runtime_stats"]["num_trials"] == 1
    assert first["metadata"]["speedup"] == 2.0
    assert (second["sample_id"], second["correctness"], second["runtime"]) == (0, False, -1.0)
    assert second["runtime_stats"] == {}
    assert found["7"][0]["compiled"] is False


def test_levels_are_not_mixed() -> None:
    results = [result("a", verdict=Verdict.ACCEPTED), result("b", "1_Add", level=2, verdict=Verdict.ACCEPTED)]
    with pytest.raises(NotKernelBench, match="name one"):
        eval_results(results)
    assert list(eval_results(results, level=2)) == ["1"]


def test_problems_without_a_number_have_no_place() -> None:
    with pytest.raises(NotKernelBench, match="with a number"):
        eval_results([result("a", "softmax", None, verdict=Verdict.ACCEPTED)])
