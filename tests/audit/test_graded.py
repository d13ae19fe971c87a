"""Whole gradings that the audit decides, or says something about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harness import Report, Submission, Verdict, grade
from harness.audit.oracle64 import WideOracle
from harness.check.oracle import Oracle
from harness.load.problem import Problem
from harness.sandbox import Exit
from harness.workers.worker import Worker

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(64, 4096), torch.rand(4096, 64)]

def get_init_inputs():
    return []
"""
TF32 = """
import torch
from torch import nn

def nearest(x):
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & -0x2000).view(torch.float32)

class ModelNew(nn.Module):
    def forward(self, a, b):
        return nearest(a) @ nearest(b)
"""
HONEST = TF32.replace("nearest(a) @ nearest(b)", "a.flip(1) @ b.flip(0)")
POSITIVE_ONLY = TF32.replace("nearest(a) @ nearest(b)", "(a @ b if bool((a >= 0).all()) else 1 / 0)")
ONLY_MODERATE = TF32.replace("nearest(a) @ nearest(b)", "a.clamp(max=1) @ b.clamp(max=1)")


def graded(source: str, folder: Path, toml: str = "", **options: object) -> Report:
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "problem.toml").write_text(f"{toml}\n[workloads.default]\ntrials = 1\n")
    options = {"mode": "check", "device": "cpu"} | options
    return grade(Problem.load(folder), Submission.from_source(source, "answer.py"), **options)  # type: ignore[arg-type]


def test_tf32_within_the_tolerance_is_rejected(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, mode="run", budget_s=0.2)
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    assert "tf32" in report.reason.message
    assert report.correctness is not None
    (leaf,) = report.correctness.leaves
    assert leaf.ok
    assert leaf.precision_ratio is not None
    assert leaf.precision_ratio > 25
    assert [stage.name for stage in report.stages] == ["load", "build", "check", "time", "audit", "judge"]


def test_it_is_a_warning_where_the_problem_only_flags(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, 'precision_policy = "flag"')
    assert report.verdict is Verdict.ACCEPTED
    assert [warning.code for warning in report.warnings] == ["precision.below_spec"]


TIGHT = "[tolerance]\natol = 1e-7\nrtol = 1e-6\n"


def test_outside_the_tolerance_by_dropped_bits_is_told_from_other_mistakes(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, TIGHT)
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec"), report.reason
    assert "differs from the reference in" in report.reason.message
    assert "its errors are those of tf32" in report.reason.message.lower()
    assert report.correctness is not None
    assert not report.correctness.leaves[0].ok
    flagged = graded(TF32, tmp_path, 'precision_policy = "flag"\n' + TIGHT)
    assert (flagged.verdict, flagged.reason.code) == (Verdict.WRONG_ANSWER, "output.values")
    assert "tf32" in flagged.reason.message
    slightly = graded(HONEST.replace("b.flip(0)", "b.flip(0) * 1.001"), tmp_path, TIGHT)
    assert (slightly.verdict, slightly.reason.code) == (Verdict.WRONG_ANSWER, "output.values")
    assert "tf32" not in slightly.reason.message
    far = graded(HONEST.replace("b.flip(0)", "b.flip(0) * 1.5"), tmp_path, TIGHT)
    assert far.verdict is Verdict.WRONG_ANSWER
    assert far.audit is None


def test_fp32_in_another_order_is_accepted_without_a_word(tmp_path: Path) -> None:
    report = graded(HONEST, tmp_path)
    assert (report.verdict, report.warnings) == (Verdict.ACCEPTED, [])
    assert report.audit is not None
    assert report.audit.precision is not None
    assert not report.audit.precision.below


@pytest.mark.parametrize(
    ("source", "code"), [(POSITIVE_ONLY, "precision.probe_failed"), (ONLY_MODERATE, "precision.probe_values")]
)
def test_failing_on_inputs_that_nobody_promised_is_a_warning(
    source: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.audit.stage._LEAST_S", 60.0)
    report = graded(source, tmp_path)
    assert report.verdict is Verdict.ACCEPTED, report.reason
    assert {warning.code for warning in report.warnings} == {code}


def test_any_asks_for_nothing(tmp_path: Path) -> None:
    report = graded(TF32, tmp_path, 'precision = "any"')
    assert report.accepted
    assert report.audit is not None
    assert report.audit.precision is not None
    assert report.audit.precision.left_out == ["The problem asks for any: only the tolerance counts."]


SMALL = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, y):
        return x * 2, y + 1

def get_inputs():
    return [torch.rand(4, 80), torch.rand(4, 80)]

def get_init_inputs():
    return []
"""


def small(body: str, folder: Path, toml: str = "", reference: str = SMALL) -> Report:
    (folder / "reference.py").write_text(reference)
    (folder / "problem.toml").write_text(f"{toml}\n[workloads.default]\ntrials = 2\n")
    lines = "\n        ".join(body.splitlines())
    source = (
        "import torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n    calls = 0\n    kept = None\n"
        f"    def forward(self, x, y):\n        {lines}\n"
    )
    return grade(Problem.load(folder), Submission.from_source(source, "answer.py"), device="cpu", mode="check")


HIDDEN_INPUT = SMALL.replace("x * 2", "x * 1")
TWO_HALVES = "both = torch.empty(2, 4, 80)\ntorch.mul(x, 2, out=both[0])\ntorch.add(y, 1, out=both[1])\nreturn {}, {}"


@pytest.mark.parametrize(
    ("body", "reference", "code"),
    [
        ("return x * 2, y + 1", SMALL, "grade.correct"),
        ("return x, y + 1", HIDDEN_INPUT, "output.aliases_input"),
        ("return x[:], y + 1", HIDDEN_INPUT, "output.aliases_input"),
        ("return x, y + 1", HIDDEN_INPUT.replace("x * 1", "x.view(4, 80)"), "grade.correct"),
        # Parts of one allocation that don't overlap are no matter.
        (TWO_HALVES.format("both[0]", "both[1]"), SMALL, "grade.correct"),
        (
            "z = x * 2\nreturn z, z",
            SMALL.replace("y + 1", "x * 2"),
            "output.aliases_output",
        ),
        (
            "z = x * 2\nreturn z, z",
            SMALL.replace("return x * 2, y + 1", "z = x * 2\n        return z, z"),
            "grade.correct",
        ),
        ("z = x[:, :1] * 0 + 2\nreturn z.expand(4, 80), y + 1", SMALL.replace("x * 2", "x * 0 + 2"), "grade.correct"),
    ],
)
def test_memory_that_is_shared_is_seen_by_writing_to_it(body: str, reference: str, code: str, tmp_path: Path) -> None:
    report = small(body, tmp_path, reference=reference)
    assert report.reason.code == code, report.reason


def test_an_output_that_a_repeated_call_hands_out_again_is_seen(tmp_path: Path) -> None:
    body = (
        "key = float(x[0, 0])\nif self.kept is None or self.kept[0] != key:\n"
        "    self.kept = key, x * 2\nreturn self.kept[1], y + 1"
    )
    assert small(body, tmp_path).reason.code == "output.aliases_output"
    allowed = small(body, tmp_path, "[policy]\nalias_outputs = true\n")
    assert allowed.accepted


def test_another_result_for_the_same_input_is_seen(tmp_path: Path) -> None:
    wrong = small("self.calls += 1\nreturn x * (2 + (self.calls == 4)), y + 1", tmp_path)
    assert (wrong.verdict, wrong.reason.code) == (Verdict.WRONG_ANSWER, "output.not_repeatable")
    body = "self.calls += 1\nreturn x * (2 + 1e-6 * (self.calls % 2)), y + 1"
    a_little = small(body, tmp_path)
    assert a_little.accepted
    assert a_little.audit is not None
    assert a_little.audit.repeat is not None
    assert not a_little.audit.repeat.repeatable
    assert 0 < a_little.audit.repeat.max_difference < 1e-5
    same = small("return x * 2, y + 1", tmp_path)
    assert same.audit is not None
    assert same.audit.repeat is not None
    assert same.audit.repeat.repeatable
    assert same.audit.own_kernel_share is None
    assert same.audit.left_out == ["Which kernels run: there is no trace of a CPU's work."]


def test_who_takes_memory_is_not_spared_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the submission lives there is none for the float64 run."""
    living, (start, close) = set(), (Worker.__init__, Worker.close)

    def started(worker: Worker, *args: Any, **kwargs: Any) -> None:
        start(worker, *args, **kwargs)
        living.add(worker)

    def closed(worker: Worker) -> Exit:
        living.discard(worker)
        return close(worker)

    monkeypatch.setattr(Worker, "__init__", started)
    monkeypatch.setattr(Worker, "close", closed)
    monkeypatch.setattr(WideOracle, "_spare", lambda _: 0 if living else 1 << 40)
    report = graded(TF32, tmp_path)
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    # Of several workloads the process goes on to the next before any can be judged.
    several = graded(TF32, tmp_path, '[ranking]\nworkloads = ["first", "default"]\n[workloads.first]\ntrials = 1\n')
    assert (several.verdict, several.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    assert "workload 'first'" in several.reason.message
    monkeypatch.setattr(WideOracle, "_spare", lambda _: 0)
    unknown = graded(TF32, tmp_path)
    assert unknown.accepted
    assert unknown.audit is not None
    assert unknown.audit.precision is not None
    assert "has no memory for it" in unknown.audit.precision.left_out[-1]


class Memory:
    """A device that has no memory for the float64 run as long as a submission's process lives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.living: set[Worker] = set()
        start, close, real = Worker.__init__, Worker.close, Oracle.returned
        self.refused = 0
        self.fits = 0
        """Runs that there is memory for all the same."""

        def started(worker: Worker, *args: Any, **kwargs: Any) -> None:
            start(worker, *args, **kwargs)
            self.living.add(worker)

        def closed(worker: Worker) -> Exit:
            self.living.discard(worker)
            return close(worker)

        def returned(oracle: Oracle, model: Any, *rest: Any) -> Any:
            if self.living and model is not oracle.model:
                if not self.fits:
                    self.refused += 1
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.40 GiB")
                self.fits -= 1
            return real(oracle, model, *rest)

        monkeypatch.setattr(Worker, "__init__", started)
        monkeypatch.setattr(Worker, "close", closed)
        monkeypatch.setattr(Oracle, "returned", returned)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setattr("harness.audit.stage._LEAST_S", 60.0)
    return Memory(monkeypatch)


ONLY_OWN_IS_EXACT = TF32.replace(
    "nearest(a) @ nearest(b)", "(a @ b if bool((a >= 0).all()) and bool((a < 1).all()) else nearest(a) @ nearest(b))"
)


@pytest.mark.parametrize("fits", [0, 1, 2])
def test_answers_to_other_kinds_are_judged_too_once_there_is_memory(memory: Memory, fits: int, tmp_path: Path) -> None:
    """Exact on the problem's own inputs alone; `fits` runs in float64 succeed before the memory is gone."""
    memory.fits = fits
    report = graded(ONLY_OWN_IS_EXACT, tmp_path)
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")
    assert memory.refused == 1  # from then on nothing is tried
    assert report.audit is not None
    assert report.audit.precision is not None
    kinds = {leaf.inputs: leaf.below for leaf in report.audit.precision.leaves}
    assert not kinds.pop("own")
    assert any(kinds.values())


def test_with_memory_or_without_an_honest_submission_is_judged_alike(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = graded(HONEST, tmp_path, seed=1 << 70)
    assert memory.refused
    memory.fits = 1 << 30
    early = graded(HONEST, tmp_path, seed=1 << 70)
    assert late.accepted
    assert early.accepted
    assert late.audit is not None
    assert early.audit is not None
    assert late.audit.precision is not None
    assert {leaf.inputs for leaf in late.audit.precision.leaves} == {"own", "integers", "spike", "moved", "heavy"}
    assert late.audit.precision == early.audit.precision
    monkeypatch.setattr("harness.audit.accuracy._KEPT_BYTES", 1)
    memory.fits = 1
    bounded = graded(HONEST, tmp_path)
    assert bounded.audit is not None
    assert bounded.audit.precision is not None
    assert {leaf.inputs for leaf in bounded.audit.precision.leaves} == {"own"}
    assert any("too many leaves to keep" in text for text in bounded.audit.precision.left_out)


def test_memory_that_is_lacking_for_an_explanation_alone_spares_nobody(memory: Memory, tmp_path: Path) -> None:
    memory.fits = 1  # what the reference gives in float64, and not what coarser arithmetics would
    report = graded(TF32, tmp_path)
    assert memory.refused
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "precision.below_spec")


def test_who_leaves_no_room_for_other_inputs_is_told(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.40 GiB")

    monkeypatch.setattr("harness.audit.accuracy.probe", no_room)
    report = graded(HONEST, tmp_path)
    assert report.accepted
    assert [warning.code for warning in report.warnings] == ["precision.no_room"] * 4
    assert report.audit is not None
    assert report.audit.precision is not None
    assert {leaf.inputs for leaf in report.audit.precision.leaves} == {"own"}


def test_a_hint_in_the_text_is_a_warning_and_no_verdict(tmp_path: Path) -> None:
    report = small("import gc\ngc.collect()\nreturn x * 2, y + 1", tmp_path)
    assert report.accepted
    assert [warning.code for warning in report.warnings] == ["static.gc"]
