"""What a solver sees of a report."""

from __future__ import annotations

import copy
import json

import pytest
from server_fakes import report_of

from harness.clock.health import _shared
from harness.clock.readings import Process, Reading
from harness.clock.steady import judge_block
from harness.judge.verdict import _unsteady
from harness.report import Steadiness
from server.agent.grading import _for_solvers
from server.redact import for_solver

WORK = {"mode": "run", "workload": None, "problem": "p", "problem_version": "v", "source": "x"}
LEAF = {"path": "output[0]", "shape": [4], "outside": 1, "worst_index": [3], "worst_value": 1.5, "worst_expected": 2.5}


def test_nothing_of_the_original_is_changed():
    report = report_of(WORK)
    before = copy.deepcopy(report)
    shown = for_solver(report)
    assert report == before
    assert report["seed"] not in json.dumps(shown)
    assert shown["timing"] == report["timing"]
    assert "worst_expected" not in shown["correctness"]["leaves"][0]


@pytest.mark.parametrize("code", ["output.values", "output.timed_values", "output.not_repeatable"])
def test_no_sentence_names_a_value(code: str):
    evidence = LEAF | {"workload": "odd"}
    message = "output[0] differs, 1.5, expected 2.5"
    shown = for_solver(report_of(WORK, verdict="wrong_answer", code=code, evidence=evidence, message=message))
    text = json.dumps(shown["reason"])
    assert "1.5" not in text
    assert "2.5" not in text
    assert "1 of 4 elements" in text
    assert "'odd'" in text


def test_a_value_that_is_no_tensor_is_not_named_either():
    evidence = {"path": "output[1]", "got": "3", "expected": "4711"}
    report = report_of(WORK, verdict="wrong_answer", code="output.values", evidence=evidence, message="4711, not 3")
    assert "4711" not in json.dumps(for_solver(report))


def test_shapes_stay():
    evidence = {"path": "output", "got": [1, 2], "expected": [2, 1]}
    message = "output has shape [1, 2]; return shape [2, 1], as the reference does."
    report = report_of(WORK, verdict="wrong_answer", code="output.shape", evidence=evidence, message=message)
    assert for_solver(report)["reason"] == report["reason"]


def test_the_graders_own_tracebacks_stay_with_the_grader_and_a_submissions_go_to_it():
    evidence = {"traceback": "File /srv/grader.py"}
    ours = report_of(WORK, verdict="judge_error", code="judge.internal_error", evidence=evidence)
    theirs = report_of(WORK, verdict="runtime_error", code="run.exception", evidence=evidence)
    assert "grader.py" not in json.dumps(for_solver(ours))
    assert "grader.py" in json.dumps(for_solver(theirs))


def test_what_else_runs_on_the_machine_is_not_told():
    report = report_of(WORK)
    stranger = Process(4711, "secret job")
    seen = Reading(other_processes=(stranger,))
    report["warnings"] = [warning.model_dump() for warning in _shared(seen)]
    came = judge_block(seen, [])
    assert came is not None
    report["timing"]["steadiness"] = {"other_processes": [str(stranger)], "blocks": 1, "why": [came.message]}
    unsteady = Steadiness(blocks=0, measured_again=21, why=[came.message, "the clock moved"])
    report["reason"] = _unsteady(unsteady).reason.model_dump()
    assert json.dumps(report).count("secret job") == 6
    shown = for_solver(report)
    assert "secret job" not in json.dumps(shown)
    assert shown["reason"]["evidence"]["why"] == ["another process came onto the device", "the clock moved"]
    assert "21 blocks" in shown["reason"]["message"]


def test_who_holds_a_device_is_not_told():
    assert _for_solvers("waiting for cuda:0: another grading has it (process 7: run /home/eve/x.py)") == (
        "waiting for cuda:0: another grading has it"
    )
    assert _for_solvers("trial 2 of 5") == "trial 2 of 5"
