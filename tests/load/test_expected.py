"""expected.toml: the table of the example submissions, and the mistakes that can be in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.load.expected import ExpectedError, load_expected
from harness.load.problem import Problem

ROOT = Path(__file__).resolve().parents[2]


def test_expected_toml_names_every_submission_and_a_problem_that_exists() -> None:
    entries = load_expected(ROOT / "submissions/expected.toml")
    assert {entry.file for entry in entries} == {path.name for path in (ROOT / "submissions").glob("*.py")}
    for entry in entries:
        problem = Problem.load(ROOT / "problems" / entry.problem)
        assert problem.workload(entry.workload, entry.device)


ENTRY = '[[submission]]\nfile = "a.py"\nproblem = "p"\ndevice = "cpu"\nverdict = "accepted"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENTRY.replace("a.py", "b.py"), "names 'b.py', which does not exist"),
        (ENTRY.replace("cpu", "tpu"), "submission.0.device"),
        (ENTRY.replace("reason", "raisin"), "submission.0"),
        (ENTRY * 2, "names 'a.py' twice"),
        ("[[submission]", "TOML that can be read"),
        ("", "submission: Field required"),
    ],
)
def test_a_mistake_in_expected_toml_is_named(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "expected.toml").write_text(text)
    with pytest.raises(ExpectedError, match=r"expected\.toml") as caught:
        load_expected(tmp_path / "expected.toml")
    assert expected in str(caught.value)


def test_an_expected_toml_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ExpectedError, match="cannot be read"):
        load_expected(tmp_path / "expected.toml")
