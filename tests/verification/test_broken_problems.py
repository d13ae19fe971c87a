"""Six problems as folders, each broken in one way: `harness verify` fails, and names that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main

FOLDER = Path(__file__).parent / "broken_problems" / "problems"
BROKEN = {
    "constant_output": ({"answer.ones", "answer.mean", "answer.previous", "moves.input", "moves.parameter"}, "one"),
    "output_under_tolerance": (
        {"answer.mean", "answer.previous", "answer.permuted", "moves.input", "moves.parameter"},
        "passes, and is wrong. Lower the tolerance",
    ),
    "dead_input": ({"moves.input"}, "inputs[1] moves the output by"),
    "unseeded_randomness": ({"repeat.output"}, "no seed reaches"),
    "floor_above_a_true_time": ({"floor.bytes"}, "a right submission could be called too fast"),
    "wrong_expected_verdict": (
        {"example.otherwise"},
        "fused.py ended as accepted, grade.accepted, on cpu; expected.toml says wrong_answer",
    ),
}
"""The codes of the errors, and words of one of them."""


def verified(capfd, name: str, device: str) -> tuple[int, list[dict]]:
    capfd.readouterr()
    code = main(["verify", str(FOLDER / name), "--device", device, "--json", "-"])
    (problem,) = json.loads(capfd.readouterr().out)["problems"]
    return code, [finding for finding in problem["findings"] if finding["severity"] == "error"]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_problem_fails_and_the_reason_is_named(capfd, name):
    codes, words = BROKEN[name]
    code, errors = verified(capfd, name, "cpu")
    assert code == 1
    assert {error["code"] for error in errors} == codes, errors
    assert any(words in error["message"] for error in errors), errors


@pytest.mark.gpu
@pytest.mark.parametrize("name", BROKEN)
def test_the_same_on_a_gpu_where_a_time_is_held_against_the_floor(capfd, name):
    codes, words = BROKEN[name]
    if name == "floor_above_a_true_time":
        # A time below the floor is rejected by the grading, so the submission ends otherwise than it must, too.
        codes, words = {*codes, "floor.above_time", "example.otherwise"}, "floor"
    code, errors = verified(capfd, name, "cuda")
    assert code == 1
    assert {error["code"] for error in errors} == codes, errors
    assert any(words.replace("on cpu", "on cuda") in error["message"] for error in errors), errors


def test_every_folder_is_one_of_them():
    assert {path.name for path in FOLDER.iterdir()} == set(BROKEN)
