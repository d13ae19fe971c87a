"""`harness selftest`: what it grades, what it prints, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main

CLASSES = """
[A1]
name = "Zeros"
technique = "returns zeros"
meets = "the comparison"

[A2]
name = "Nothing"
technique = "can't be built"
meets = "nothing"
not_built = "it is a dream"
"""
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.rand(64)]

def get_init_inputs():
    return []
"""
ANSWER = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {}\n"
TABLE = """
[[attack]]
file = "{attack}.py"
classes = ["A1"]
problem = "p"
device = "any"
verdict = ["wrong_answer"]
reason = ["output.values"]

[[honest]]
file = "{honest}.py"
like = ["A1"]
problem = "p"
device = "any"
"""


def corpus(folder: Path, attack: str, honest: str) -> Path:
    (folder / "problems" / "p").mkdir(parents=True)
    (folder / "problems" / "p" / "reference.py").write_text(REFERENCE)
    (folder / "problems" / "p" / "problem.toml").write_text("[workloads.default]\ntrials = 1\n")
    (folder / "group").mkdir()
    (folder / "group" / "right.py").write_text(ANSWER.format("x + 1"))
    (folder / "group" / "zeros.py").write_text(ANSWER.format("x * 0"))
    (folder / "group" / "expected.toml").write_text(TABLE.format(attack=attack, honest=honest))
    (folder / "classes.toml").write_text(CLASSES)
    return folder


def test_all_is_well(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = corpus(tmp_path, attack="zeros", honest="right")
    assert main(["selftest", "--device", "cpu", "--corpus", str(folder)]) == 0
    out, err = capfd.readouterr()
    assert "1 attacks caught, 0 missed, 0 ended otherwise; 1 honest fine, 0 false alarms" in " ".join(out.split())
    assert "it is a dream" in " ".join(out.split())
    assert "[2/2] group/right: fine" in err


def test_what_is_missed_or_accused_ends_with_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = corpus(tmp_path, attack="right", honest="zeros")
    written = tmp_path / "all.json"
    assert main(["selftest", "--device", "cpu", "--corpus", str(folder), "--json", str(written), "--jobs", "1"]) == 1
    out, _ = capfd.readouterr()
    assert "MISSED  group/right" in out
    assert "FALSE ALARM  group/zeros" in out
    found = json.loads(written.read_text())
    assert found["good"] is False
    assert {each["entry"]: each["status"] for each in found["entries"]} == {
        "group/right": "missed",
        "group/zeros": "false alarm",
    }
    assert found["classes"]["A1"]["missed"] == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--only", "nothing/at/all"], "fits no entry"),
        (["--corpus", "/nowhere"], "cannot be read"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_wrong_use_is_said(arguments: list[str], word: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--device", "cpu", *arguments]) == 2
    assert word in capfd.readouterr().err
