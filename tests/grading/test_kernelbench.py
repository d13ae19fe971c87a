"""The ten KernelBench-style samples, graded: each passes as its own submission, and its wrong one does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples

from harness import Report, Submission, Verdict, grade

TIMED = ("dropout", "tuple_output")
"""Also timed on the CPU; a second more than checking them."""


def graded(name: str, wrong: bool, device: str, mode: str) -> Report:
    source = samples.wrong_path(name).read_text() if wrong else own_source(name)
    # Named as the file is: what is imported under a name must not depend on which of the two it is.
    return grade(samples.problem_path(name), Submission.from_source(source, "answer.py"), device=device, mode=mode)


def own_source(name: str) -> str:
    return samples.identity_source(samples.problem_path(name).read_text())


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_sample_is_accepted_as_its_own_submission(name: str) -> None:
    mode = "run" if name in TIMED else "check"
    report = graded(name, wrong=False, device="cpu", mode=mode)
    assert report.verdict is Verdict.ACCEPTED, report.reason
    assert report.correctness is not None
    assert report.correctness.trials == report.correctness.trials_asked
    assert report.correctness.weights in ("transferred", "none")
    # The same operations on the same bytes: what differs at all was not the same input, weight or random number.
    assert {leaf.max_abs_error for leaf in report.correctness.leaves} == {0.0}
    assert (report.timing is not None) == (mode == "run")


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_samples_wrong_submission_is_a_wrong_answer(name: str) -> None:
    report = graded(name, wrong=True, device="cpu", mode="check")
    assert report.verdict is Verdict.WRONG_ANSWER, report.reason
    assert report.reason.message


def test_a_sample_is_graded_from_its_file_as_it_is(tmp_path: Path) -> None:
    problem = tmp_path / "1_lstm.py"
    problem.write_text(samples.problem_path("lstm").read_text())
    submission = tmp_path / "answer.py"
    submission.write_text(own_source("lstm"))
    assert grade(problem, submission, device="cpu", mode="check").accepted


@pytest.mark.gpu
@pytest.mark.parametrize("name", samples.NAMES)
def test_a_sample_is_accepted_on_a_gpu(name: str) -> None:
    report = graded(name, wrong=False, device="cuda", mode="run")
    assert report.verdict is Verdict.ACCEPTED, report.reason
    assert report.timing is not None


@pytest.mark.gpu
@pytest.mark.parametrize("name", samples.NAMES)
def test_a_samples_wrong_submission_is_a_wrong_answer_on_a_gpu(name: str) -> None:
    report = graded(name, wrong=True, device="cuda", mode="run")
    assert report.verdict is Verdict.WRONG_ANSWER, report.reason
