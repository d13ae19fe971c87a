"""The reference as it is, and under torch.compile."""

from __future__ import annotations

from pathlib import Path

import tiny

from harness import Submission, Verdict, grade


def test_the_compiled_reference_takes_part_where_it_is_asked_for(tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(tiny.REFERENCE)
    submission = Submission.from_source(tiny.REFERENCE.replace("class Model(", "class ModelNew("), "a.py")
    report = grade(problem, submission, device="cpu", budget_s=0.5, baselines=("eager", "compile"))
    assert report.verdict in (Verdict.ACCEPTED, Verdict.REJECTED), report.reason  # a busy machine confirms no time
    assert report.timing is not None
    (name,) = report.timing.baselines
    compiled = report.timing.baselines[name]
    assert name == "compile"
    assert compiled.measured.samples_us
    assert compiled.speedup == compiled.measured.median_us / report.timing.candidate.median_us
    assert compiled.speedup_ci95[0] <= compiled.speedup <= compiled.speedup_ci95[1]
    assert len(compiled.measured.block_sizes) == len(report.timing.reference.block_sizes)
