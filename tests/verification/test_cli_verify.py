"""`harness verify`: its exit codes, its table, its document."""

from __future__ import annotations

import json
import tomllib

import broken
import pytest

from harness import Verification
from harness.cli.main import main


@pytest.fixture
def harness(capfd, monkeypatch):
    """Run the command line: exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(part) for part in argv])
        return code, *capfd.readouterr()

    return run


def test_a_problem_without_examples_passes_unless_warnings_count(harness, tmp_path):
    path = broken.write(tmp_path)
    code, out, _ = harness("verify", path, "--device", "cpu")
    assert code == 0
    assert "PASSES  scaled" in out
    assert "warning example.none" in out
    stanza = out[out.index("[[submission]]") :].split("answers")[0]
    assert tomllib.loads(stanza)["submission"] == [
        {"file": "mine.py", "problem": "scaled", "device": "cpu", "verdict": "accepted", "reason": "grade.accepted"}
    ]
    assert "docs/writing-a-problem.md" in " ".join(out.split())
    assert "11 of 11 trivial ones refused" in out or "of 12 trivial ones refused" in out
    assert max(map(len, out.splitlines())) <= 80
    code, _, _ = harness("verify", path, "--device", "cpu", "--werror")
    assert code == 1
    code, out, _ = harness("verify", path, "--device", "cpu", "--werror", "--no-examples")
    assert code == 0
    assert "How submissions end: that was not asked for." in " ".join(out.split())


def test_a_broken_problem_fails_and_does_not_hide_another(harness, tmp_path):
    bad = broken.write(tmp_path, "torch.zeros_like(x)")
    good = broken.write(tmp_path / "other")
    target = tmp_path / "found.json"
    code, out, _ = harness("verify", bad, good, "--device", "cpu", "--no-examples", "--json", target)
    assert code == 1
    assert "FAILS  scaled" in out
    assert "PASSES  scaled" in out
    document = json.loads(target.read_text())
    assert document["good"] is False
    first, second = [Verification.model_validate(each) for each in document["problems"]]
    assert "answer.zeros" in {finding.code for finding in first.of("error")}
    assert second.good()


def test_all_means_those_in_problems(harness, tmp_path):
    broken.write(tmp_path)  # the tests run in tmp_path
    code, out, _ = harness("verify", "--all", "--device", "cpu", "--no-examples", "--json", "-")
    assert code == 0
    assert [each["problem"] for each in json.loads(out)["problems"]] == ["scaled"]


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--all", "somewhere"],
        ["--all"],
        ["nowhere"],
        ["problems", "--expected", "nothing.toml"],
        ["problems", "--device", "tpu"],
    ],
)
def test_wrong_use_is_one_sentence(harness, tmp_path, argv):
    if argv[:1] == ["problems"]:
        (tmp_path / "problems").mkdir()
    code, out, err = harness("verify", *argv)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
