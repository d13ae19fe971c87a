"""Whose fault it is when a device, or this machine, has no memory left."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import tiny
import torch

from harness import Report, Submission, Verdict, grade
from harness.check.oracle import Oracle
from harness.grading.memory import Memory, lacks_host_memory
from harness.load.problem import ProblemError
from harness.machine.lacking import lacks_device_memory
from harness.sandbox import Exit, Limit
from harness.workers.worker import Worker, WorkerFailure

GB = 10**9
SUBMISSION = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * 2.0
"""
REFERENCE = (
    SUBMISSION.replace("ModelNew", "Model")
    + """
def get_inputs():
    return [torch.rand(64)]

def get_init_inputs():
    return []
"""
)


class Room:
    """A memory of 100 GB of which a submission holds `held`."""

    def __init__(self, held: int, whose: Literal["device", "machine"] = "device") -> None:
        self.free = 100 * GB
        self.memory = Memory(whose, lambda: self.free, self.free)
        self.free -= held + 3 * GB
        self.held = held

    def end(self) -> None:
        self.free += self.held


def test_what_comes_free_at_its_end_is_what_it_held() -> None:
    for whose, kind in (("device", "hoarded"), ("machine", "hoarded_host")):
        taken = Room(90 * GB, whose)
        failure = taken.memory.hoarded(taken.end)
        assert failure is not None
        assert failure.kind == kind
        assert f"held 90.0 GB of the {whose}'s memory, of which 100.0 GB were free" in failure.message


def test_a_large_share_is_nobodys_fault_below_half() -> None:
    taken = Room(50 * GB)
    assert taken.memory.hoarded(taken.end) is None
    assert taken.free == 97 * GB  # ended all the same: there is nothing to go on with


def test_a_cpu_has_the_machine_s_memory_alone() -> None:
    assert Memory.of_machine().free_at_first > 0
    assert Memory.of_device(torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), True),
        (RuntimeError("the CUDA driver says CUDA_ERROR_OUT_OF_MEMORY"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_whether_memory_is_lacking_is_read_from_the_error(error: Exception, lacks: bool) -> None:
    assert lacks_device_memory(error) is lacks
    outer = ValueError("the reference fails")
    outer.__cause__ = error
    assert lacks_device_memory(outer) is lacks


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (WorkerFailure("died", "call", "gone", exit=Exit(None, signal.SIGKILL, None)), True),
        (WorkerFailure("died", "call", "gone", exit=Exit(137, None, None)), True),
        (WorkerFailure("limit", "call", "gone", exit=Exit(None, None, Limit.MEMORY, 1.0, 2.0)), True),
        (WorkerFailure("limit", "call", "gone", exit=Exit(None, None, Limit.CPU_TIME, 1.0, 2.0)), False),
        (WorkerFailure("died", "call", "gone", exit=Exit(None, signal.SIGSEGV, None)), False),
        (WorkerFailure("late", "call", "no answer"), False),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), False),
    ],
)
def test_whether_the_machine_has_none_is_read_from_the_error(error: Exception, lacks: bool) -> None:
    assert lacks_host_memory(error) is lacks
    outer = ProblemError("the reference fails")
    outer.__cause__ = error
    assert lacks_host_memory(outer) is lacks


DEVICE_LACKS = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.40 GiB")
HOST_LACKS = ProblemError("Model.forward fails: DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize(
    ("error", "held", "verdict", "code"),
    [
        (DEVICE_LACKS, 90 * GB, Verdict.MEMORY_LIMIT, "limit.device_memory"),
        (DEVICE_LACKS, 1 * GB, Verdict.JUDGE_ERROR, "judge.internal_error"),
        (HOST_LACKS, 80 * GB, Verdict.MEMORY_LIMIT, "limit.host_memory"),
        (HOST_LACKS, 1 * GB, None, "DefaultCPUAllocator"),
    ],
)
def test_a_grader_without_memory_looks_who_has_it(
    error: Exception, held: int, verdict: Verdict | None, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = Room(held, "device" if error is DEVICE_LACKS else "machine")
    close = Worker.close

    def closed(worker: Worker) -> Exit:
        device.end()
        device.held = 0
        return close(worker)

    def expected(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Memory, "of_device", lambda _: device.memory if error is DEVICE_LACKS else None)
    monkeypatch.setattr(Memory, "of_machine", lambda: device.memory)
    monkeypatch.setattr(Worker, "close", closed)
    monkeypatch.setattr(Oracle, "expected", expected)
    (tmp_path / "problem.toml").touch()
    (tmp_path / "reference.py").write_text(REFERENCE)
    submission = Submission.from_source(SUBMISSION, "answer.py")
    if verdict is None:
        with pytest.raises(ProblemError, match=code):
            grade(tmp_path, submission, mode="check", device="cpu")
        return
    report = grade(tmp_path, submission, mode="check", device="cpu")
    assert (report.verdict, report.reason.code) == (verdict, code), report.reason


@pytest.mark.parametrize("held", [80 * GB, 1 * GB])
def test_a_timed_reference_without_memory_is_told_to_who_has_it(
    held: int, graded: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(held, "machine")
    close = Worker.close

    def closed(worker: Worker) -> Exit:
        room.end()
        room.held = 0
        return close(worker)

    monkeypatch.setattr(Memory, "of_machine", lambda: room.memory)
    monkeypatch.setattr(Worker, "close", closed)
    lacking = "        if __name__ == 'reference':\n            raise MemoryError\n        return torch"
    reference = tiny.REFERENCE.replace("        return torch", lacking)
    submission = tiny.REFERENCE.replace("Model", "ModelNew")
    toml = "[workloads.default]\ntrials = 1\n"
    if held < 50 * GB:
        with pytest.raises(ProblemError, match="can't be timed"):
            graded(submission, reference=reference, toml=toml, mode="run")
        return
    reason = graded(submission, reference=reference, toml=toml, mode="run").reason
    assert reason.code == "limit.host_memory", reason
