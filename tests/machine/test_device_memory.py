"""Whose fault it is when a device has no memory left."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import Submission, Verdict, grade
from harness.check.oracle import Oracle
from harness.machine.device_memory import DeviceMemory, lacks_device_memory
from harness.sandbox import Exit
from harness.workers.worker import Worker

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


class Device:
    """A device of 100 GB on which a submission holds `held`."""

    def __init__(self, held: int) -> None:
        self.free = 100 * GB
        self.memory = DeviceMemory(lambda: self.free, self.free)
        self.free -= held + 3 * GB
        self.held = held

    def end(self) -> None:
        self.free += self.held


def test_what_comes_free_at_its_end_is_what_it_held() -> None:
    taken = Device(90 * GB)
    assert "held 90.0 GB of the device's memory, of which 100.0 GB were free" in taken.memory.hoarded(taken.end)


def test_a_large_share_is_nobodys_fault_below_half() -> None:
    taken = Device(50 * GB)
    assert taken.memory.hoarded(taken.end) == ""
    assert taken.free == 97 * GB  # ended all the same: there is nothing to go on with


def test_a_cpu_has_no_such_memory() -> None:
    assert DeviceMemory.of(torch.device("cpu")) is None


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
    ("held", "verdict", "code"),
    [
        (90 * GB, Verdict.MEMORY_LIMIT, "limit.device_memory"),
        (1 * GB, Verdict.JUDGE_ERROR, "judge.internal_error"),
    ],
)
def test_a_grader_without_memory_looks_who_has_it(
    held: int, verdict: Verdict, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = Device(held)
    close = Worker.close

    def closed(worker: Worker) -> Exit:
        device.end()
        device.held = 0
        return close(worker)

    def expected(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.40 GiB")

    monkeypatch.setattr(DeviceMemory, "of", lambda _: device.memory)
    monkeypatch.setattr(Worker, "close", closed)
    monkeypatch.setattr(Oracle, "expected", expected)
    (tmp_path / "problem.toml").touch()
    (tmp_path / "reference.py").write_text(REFERENCE)
    submission = Submission.from_source(SUBMISSION, "answer.py")
    report = grade(tmp_path, submission, mode="check", device="cpu")
    assert (report.verdict, report.reason.code) == (verdict, code), report.reason
