"""`harness problems`, `harness schema`, `harness --help`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.report import Report

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def get_inputs(n=4):
    return [torch.rand(n)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One good problem, one broken one, and a folder that is none."""
    good = tmp_path / "copy"
    good.mkdir()
    (good / "problem.toml").write_text('title = "[bold]Copy[/bold]"\n[workloads.default.args]\nn = 4096\n')
    (good / "reference.py").write_text(REFERENCE)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "problem.toml").write_text("titel = 'x'\n")
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_a_broken_problem_does_not_hide_the_others(harness, folder):
    code, out, err = harness("problems", str(folder))
    assert code == 1
    assert err == ""
    assert "copy" in out
    assert "[bold]Copy[/bold]" in out
    assert "n=4096" in out
    assert "broken" in out
    assert "titel" in out
    assert max(map(len, out.splitlines())) <= 80


def test_problems_as_json(harness, folder):
    code, out, _ = harness("problems", str(folder), "--json")
    broken, good = json.loads(out)
    assert code == 1
    assert "titel" in broken["error"]
    assert good["id"] == "copy"
    assert good["workloads"]["default"]["args"] == {"n": 4096}
    assert good["default_workload"] == {"cuda": "default", "cpu": "default"}


def test_one_problem_folder_may_be_named_itself(harness, folder):
    code, out, _ = harness("problems", str(folder / "copy"), "--json")
    assert code == 0
    assert [problem["id"] for problem in json.loads(out)] == ["copy"]


@pytest.mark.parametrize("name", ["nope", "notes"])
def test_a_folder_without_problems_is_wrong_use(harness, folder, name):
    code, out, err = harness("problems", str(folder / name))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert name in err


def test_schema_is_the_schema_of_a_report(harness):
    code, out, _ = harness("schema")
    assert code == 0
    assert json.loads(out) == Report.model_json_schema(mode="serialization")


def test_help_names_every_command_and_the_exit_codes(harness):
    code, out, _ = harness("--help")
    assert code == 0
    for word in ("run", "check", "problems", "device", "schema", "Exit codes"):
        assert word in out
