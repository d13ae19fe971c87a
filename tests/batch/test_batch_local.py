"""Which devices a local executor takes, and what it calls them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from batch_fakes import RIGHT, problem_file

from harness.batch import local
from harness.batch.executor import NotGraded
from harness.batch.job import Job, Options
from harness.batch.local import LocalExecutor, local_devices
from harness.load.problem import Problem
from harness.machine.device import Device, DeviceError, open_device
from harness.report import Verdict


def gpu(index: int, name: str = "NVIDIA H200") -> Device:
    info = open_device("cpu").info.model_copy(update={"kind": "cuda", "name": name, "compute_capability": "9.0"})
    return replace(open_device("cpu"), kind="cuda", index=index, uuid=f"GPU-{index}", info=info)


def test_auto_is_every_gpu_or_else_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = open_device("cpu")
    monkeypatch.setattr(local, "list_devices", lambda: [gpu(0), gpu(1), cpu])
    assert [device.torch_name for device in local_devices("auto")] == ["cuda:0", "cuda:1"]
    monkeypatch.setattr(local, "list_devices", lambda: [cpu])
    assert local_devices(" Auto") == [cpu]


def test_devices_are_named_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "open_device", lambda name: gpu(int(name[-1])))
    assert [device.torch_name for device in local_devices("cuda:1, cuda:0")] == ["cuda:1", "cuda:0"]
    for wrong in ("", ",", "cuda:0,cuda:0"):
        with pytest.raises(DeviceError, match="name each device once"):
            local_devices(wrong)


def test_devices_whose_times_cannot_be_compared_are_refused() -> None:
    with pytest.raises(DeviceError, match="NVIDIA A100, NVIDIA H200"):
        LocalExecutor([gpu(0), gpu(1, "NVIDIA A100")])


def test_each_device_grades_one_and_only_a_cpu_is_disturbed_by_builds() -> None:
    async def made() -> None:
        two = LocalExecutor([gpu(0), gpu(1)], build_slots=3)
        assert (two.device, two.grade_slots, two.build_slots, two.builds_disturb) == ("NVIDIA H200", 2, 3, False)
        assert LocalExecutor([gpu(0)], overlap=2).grade_slots == 2
        assert LocalExecutor([open_device("cpu")]).builds_disturb
        assert two.pids == []  # nothing is started before it is needed
        await two.close()

    asyncio.run(made())


def test_what_the_grader_refuses_is_not_graded_and_no_loss(tmp_path: Path) -> None:
    """In a real process: an unknown workload is the caller's error; text that is no submission is a verdict."""
    problem = Problem.load(problem_file(tmp_path, "softmax"))

    async def graded() -> None:
        executor = LocalExecutor([open_device("cpu")], build_slots=1)
        try:
            job = Job(problem, RIGHT.encode(), "sha", "x.py", Options(workload="vast"))
            with pytest.raises(NotGraded, match="no workload 'vast'"):
                await executor.grade(job, ())
            broken = Job(problem, b"\xff", "sha", "../o dd\n.py", Options())
            report = await executor.grade(broken, ())
            assert report.verdict is Verdict.INVALID_SUBMISSION
            assert len(executor.pids) == 1
        finally:
            await executor.close()

    asyncio.run(graded())
