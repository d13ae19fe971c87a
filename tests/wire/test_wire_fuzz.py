"""Whatever bytes come from the other side, a verdict comes out."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
from fakes import ScriptedSandbox, answering
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import Problem, Report, Submission, Verdict, grade
from harness.wire.frames import Channel

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))
    def forward(self, x, flag):
        return {"a": x * self.w, "n": [3, (x > 0)]}

def get_inputs():
    return [torch.rand(4), True]

def get_init_inputs():
    return []
"""
TOML = "[limits]\nimport_s = 0.3\nconstruct_s = 0.3\ncall_s = 0.3\n[workloads.default]\ntrials = 2\n"
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

# What no worker can bring about: these are our own failures, or results.
GRADED = set(Verdict) - {Verdict.ACCEPTED, Verdict.UNSTABLE}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)
names = st.sampled_from(["hello", "build", "done", "constructed", "returned", "failed", "exit", "nonsense"])


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    folder = tmp_path_factory.mktemp("problem")
    (folder / "reference.py").write_text(PROBLEM)
    (folder / "problem.toml").write_text(TOML)
    return Problem.load(folder)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.workers.worker._TRANSFER_S", 0.3)
    monkeypatch.setattr("harness.workers.worker._START_S", 0.5)


def graded_by(problem: Problem, sandbox: ScriptedSandbox) -> Report:
    submission = Submission.from_source("class ModelNew: pass", "fuzz.py")
    return grade(problem, submission, device="cpu", mode="check", sandbox=sandbox)


def honest(order: dict[str, Any]) -> dict[str, Any]:
    """What a worker answers that forwards zeros."""
    if order["type"] == "construct":
        return {"type": "constructed", "state": [{"key": "w", "dtype": "float32", "shape": [4], "strides": None}]}
    if order["type"] == "call":
        leaf = {"kind": "torch.Tensor", "plain": True, "shape": [4], "device": "cpu"}
        value = {"dict": [["a", {"leaf": 0}], ["n", {"list": [{"int": "3"}, {"leaf": 1}]}]]}
        output = {"value": value, "leaves": [leaf | {"dtype": "float32"}, leaf | {"dtype": "bool"}]}
        return {"type": "returned", "outputs": [output]}
    return {"type": "done"}


def test_the_fake_worker_reaches_the_comparison(problem: Problem) -> None:
    report = graded_by(problem, ScriptedSandbox(answering(lambda order, _: honest(order))))
    assert (report.verdict, report.reason.code) == (Verdict.WRONG_ANSWER, "output.values")


@FUZZ
@given(data=st.binary(max_size=300))
def test_any_bytes_before_hello_are_our_own_failure_to_start(problem: Problem, data: bytes) -> None:
    report = graded_by(problem, ScriptedSandbox(lambda sock: sock.sendall(data)))
    assert report.verdict is Verdict.JUDGE_ERROR
    assert report.reason.code == "judge.worker_start"


@FUZZ
@given(data=st.binary(max_size=300), at=st.integers(0, 12))
def test_any_bytes_instead_of_an_answer_end_in_a_verdict(problem: Problem, data: bytes, at: int) -> None:
    count = 0

    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any] | bytes:
        nonlocal count
        count += 1
        return data if count > at else honest(order)

    report = graded_by(problem, ScriptedSandbox(answering(answer)))
    assert report.verdict in GRADED


@FUZZ
@given(kind=names, body=st.dictionaries(st.text(max_size=10), json_values, max_size=6), at=st.integers(0, 12))
def test_any_message_instead_of_an_answer_ends_in_a_verdict(
    problem: Problem, kind: str, body: dict[str, Any], at: int
) -> None:
    count = 0

    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any]:
        nonlocal count
        count += 1
        return {**body, "type": kind} if count > at else honest(order)

    report = graded_by(problem, ScriptedSandbox(answering(answer)))
    assert report.verdict in GRADED


@FUZZ
@given(value=json_values, leaves=st.lists(json_values, max_size=3))
def test_any_claim_about_an_output_ends_in_a_verdict(problem: Problem, value: Any, leaves: list[Any]) -> None:
    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any]:
        said = honest(order)
        if order["type"] == "call":
            output = said["outputs"][0]
            output["value"] = value if isinstance(value, dict) else output["value"]
            output["leaves"] = leaves or output["leaves"]
        return said

    report = graded_by(problem, ScriptedSandbox(answering(answer)))
    assert report.verdict in GRADED


@FUZZ
@given(request=st.dictionaries(st.text(max_size=12), json_values, max_size=6))
def test_any_build_request_ends_in_a_verdict(problem: Problem, request: dict[str, Any]) -> None:
    def answer(order: dict[str, Any], channel: Channel) -> dict[str, Any]:
        if order["type"] == "import":
            channel.send({"type": "build", "request": request})
            channel.receive(take_fds=True)
        return honest(order)

    report = graded_by(problem, ScriptedSandbox(answering(answer)))
    assert report.verdict in GRADED


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        frame(b"[" * 100_000),
        frame(b'{"type": "done", "x": NaN}'),
        frame(
            json.dumps(
                {
                    "type": "timed",
                    "outputs": [],
                    "elapsed_us": [-1],
                    "host_us": [0],
                    "around_us": 0,
                    "ticket": "",
                }
            ).encode()
        ),
        frame(b'{"type": "done"}') + b"\x00\x00",
        frame(b"\xff\xfe"),
        frame(b'{"type": 7}'),
        frame(b"7" * 5000),
    ],
    ids=["huge", "deep", "nan", "negative time", "half a frame", "not utf-8", "no type", "long number"],
)
def test_known_nasty_answers_are_the_submissions_failure(problem: Problem, data: bytes) -> None:
    report = graded_by(
        problem, ScriptedSandbox(answering(lambda order, _: data if order["type"] == "call" else honest(order)))
    )
    assert report.verdict in {Verdict.RUNTIME_ERROR, Verdict.TIME_LIMIT}
    assert not report.reason.evidence.get("traceback")


def test_an_answer_to_no_order_is_the_submissions_failure(problem: Problem) -> None:
    early = frame(json.dumps({"type": "done", "ticket": "0" * 16}).encode())
    report = graded_by(
        problem, ScriptedSandbox(answering(lambda order, _: early if order["type"] == "put" else honest(order)))
    )
    assert (report.verdict, report.reason.code) == (Verdict.RUNTIME_ERROR, "run.protocol")
    assert "belongs to no order" in report.reason.message


def test_evidence_of_any_name_stays_evidence(problem: Problem) -> None:
    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any]:
        if order["type"] != "call":
            return honest(order)
        said = {"type": "failed", "category": "exception", "error": "E", "message": "m", "traceback": "t"}
        return {**said, "evidence": {"verdict": "accepted", "code": "x", "phase": "elsewhere", "message": "y"}}

    report = graded_by(problem, ScriptedSandbox(answering(answer)))
    assert (report.verdict, report.reason.code) == (Verdict.RUNTIME_ERROR, "run.exception")
    assert report.reason.evidence["phase"] == "call"


def test_slow_answers_add_up(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes in time, and all of them together take too long."""
    monkeypatch.setattr("harness.grading.crew._START_S", 0.0)
    monkeypatch.setattr("harness.grading.crew._CALLS_BESIDE", 0)
    (tmp_path / "reference.py").write_text(PROBLEM)
    limits = "import_s = 0.3\nconstruct_s = 0.3\ncall_s = 0.3\ntime_s = 0.1"
    (tmp_path / "problem.toml").write_text(f"[limits]\n{limits}\n[workloads.default]\ntrials = 2\n")

    def answer(order: dict[str, Any], _: Channel) -> dict[str, Any]:
        time.sleep(0.2)
        return honest(order)

    report = graded_by(Problem.load(tmp_path), ScriptedSandbox(answering(answer)))
    assert (report.verdict, report.reason.code) == (Verdict.TIME_LIMIT, "limit.total_time")


def test_silence_is_a_time_limit(problem: Problem) -> None:
    report = graded_by(
        problem, ScriptedSandbox(answering(lambda order, _: b"" if order["type"] == "call" else honest(order)))
    )
    assert (report.verdict, report.reason.code) == (Verdict.TIME_LIMIT, "limit.call_time")


def test_hanging_up_is_the_submissions_failure(problem: Problem) -> None:
    report = graded_by(
        problem, ScriptedSandbox(answering(lambda order, _: None if order["type"] == "construct" else honest(order)))
    )
    assert (report.verdict, report.reason.code) == (Verdict.RUNTIME_ERROR, "run.died")


def test_a_worker_that_does_not_read_does_not_hold_the_grader_up(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.workers.worker._SEND_S", 0.2)

    def deaf(sock: socket.socket) -> None:
        import torch

        Channel(sock).send({"type": "hello", "protocol": 1, "torch": torch.__version__, "python": "3"})
        time.sleep(2)

    submission = Submission.from_source("class ModelNew: pass\n" + "# filling\n" * 90_000, "fuzz.py")
    report = grade(problem, submission, device="cpu", mode="check", sandbox=ScriptedSandbox(deaf))
    assert report.verdict is Verdict.TIME_LIMIT
