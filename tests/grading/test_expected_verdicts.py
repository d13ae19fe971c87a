"""Every example submission ends as submissions/expected.toml says, through the command line, as a program sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import Report
from harness.load.expected import ExpectedSubmission, load_expected

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = load_expected(ROOT / "submissions/expected.toml")
ON_CPU = [entry for entry in ENTRIES if entry.device == "cpu"]
ON_GPU = [entry for entry in ENTRIES if entry.device == "cuda"]


def run(entry: ExpectedSubmission, *options: str, command: str = "run") -> Report:
    """Grade an example; its report, with all that holds for every grading asserted."""
    argv = [command, f"problems/{entry.problem}", f"submissions/{entry.file}", "--device", entry.device, "--json", "-"]
    argv += [] if entry.workload is None else ["--workload", entry.workload]
    done = subprocess.run(
        [sys.executable, "-m", "harness", *argv, *options], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)  # refuses a second document, or anything else beside the first
    report = Report.model_validate_json(done.stdout)
    assert json.loads(report.model_dump_json()) == document
    assert report.mode == command
    assert done.returncode == report.exit_code
    return report


def check_as_expected(entry: ExpectedSubmission) -> None:
    report = run(entry)
    assert (report.verdict.value, report.reason.code) == (entry.verdict, entry.reason), report.reason
    if report.accepted:
        assert report.timing is not None
        assert report.correctness is not None
        assert report.correctness.timed_calls_verified > 0
        assert [stage.name for stage in report.stages] == ["load", "build", "check", "time", "audit", "judge"]


@pytest.mark.parametrize("entry", ON_CPU, ids=lambda entry: entry.file)
def test_on_the_cpu(entry: ExpectedSubmission) -> None:
    check_as_expected(entry)


@pytest.mark.gpu
@pytest.mark.parametrize("entry", ON_GPU, ids=lambda entry: entry.file)
def test_on_a_gpu(entry: ExpectedSubmission) -> None:
    check_as_expected(entry)


@pytest.mark.gpu
def test_the_launch_that_fails_is_explained() -> None:
    (entry,) = [entry for entry in ON_GPU if entry.file == "recurrence_v0.py"]
    assert "48 KB of shared memory" in run(entry, command="check").reason.message


@pytest.mark.parametrize("entry", ON_CPU, ids=lambda entry: entry.file)
def test_a_report_repeats_itself_by_its_seed(entry: ExpectedSubmission) -> None:
    first = run(entry, command="check")
    assert first.seed is not None
    assert first.correctness is not None
    again = run(entry, "--seed", first.seed, command="check")
    assert again.seed == first.seed
    assert again.correctness == first.correctness
    other = run(entry, "--seed", "12345", command="check")
    assert other.seed == "12345" != first.seed
    assert other.correctness is not None
    # The scale is that of the reference's output: other inputs, another scale.
    assert [leaf.scale for leaf in other.correctness.leaves] != [leaf.scale for leaf in first.correctness.leaves]
