"""Profiles where there is a GPU. Those that read counters need ncu, and a driver that lets this user read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import ncu_details
from benchmarks.profile import WITHIN, apart, figures
from harness import Report, Submission, profile
from harness.load.problem import Problem
from harness.profiling import ncu

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
RECURRENCE = ROOT / "problems" / "linear_recurrence"
SCALED = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(1 << 24)]

def get_init_inputs():
    return []
"""
WAITS = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        y = x * 2
        if float(y[0]) < 0:
            y = y + 1
        torch.cuda.synchronize()
        return y
"""
MANY = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for at in range(0, x.numel(), 1 << 14):
            torch.mul(x[at : at + (1 << 14)], 2, out=y[at : at + (1 << 14)])
        return y
"""


def profiled(source: str, folder: Path, profiler: str = "torch") -> Report:
    (folder / "reference.py").write_text(SCALED)
    (folder / "problem.toml").write_text('[workloads.default]\ntrials = 1\n[floor]\nbytes = "8 * 16777216"\n')
    return profile(Problem.load(folder), Submission.from_source(source, "answer.py"), device="cuda", profiler=profiler)  # type: ignore[arg-type]


def sample(name: str, profiler: str) -> Report:
    return profile(RECURRENCE, ROOT / "submissions" / name, device="cuda", profiler=profiler)  # type: ignore[arg-type]


def test_the_trace_shows_the_calls_kernels_and_nothing_of_the_harness():
    found = sample("recurrence_v2.py", "torch").profile
    assert found is not None
    (kernel,) = found.kernels
    assert kernel.name.startswith("double_segments")
    assert (kernel.launches, kernel.own, kernel.origin) == (12, True, "extension")
    assert (kernel.grid, kernel.block) == ((131072, 1, 1), (256, 1, 1))
    assert kernel.share == 1.0
    assert kernel.registers > 0
    assert found.copies == []
    assert found.device is not None
    assert found.device.launches == 12
    assert found.device.span_us == pytest.approx(found.call.us, rel=0.1)
    assert {call.name for call in found.host} <= {"cudaLaunchKernel", "cudaLaunchKernelExC"}
    assert sum(call.count for call in found.host) == 12
    assert not found.counters.read


def test_a_submission_that_waits_is_told_so(tmp_path):
    found = profiled(WAITS, tmp_path).profile
    assert found is not None
    assert "host.synchronisation" in [finding.code for finding in found.findings]
    assert any("DtoH" in copy.name for copy in found.copies)


def test_many_small_kernels_are_bound_by_their_launches(tmp_path):
    found = profiled(MANY, tmp_path).profile
    assert found is not None
    assert found.bound == "launch"
    assert found.findings[0].code == "launch.overhead"
    assert found.device is not None
    assert found.device.launches == 1024


@pytest.fixture
def counters() -> None:
    if ncu.find() is None:
        pytest.skip("there is no ncu on PATH or in CUDA_HOME")


@pytest.mark.slow
@pytest.mark.usefixtures("counters")
@pytest.mark.parametrize(
    ("name", "first"), [("recurrence_v1.py", "memory.uncoalesced"), ("recurrence_v2.py", "memory.traffic")]
)
def test_counters_are_nsight_computes_and_the_first_finding_names_the_cause(name, first):
    found = sample(name, "ncu").profile
    assert found is not None
    if not found.counters.read and "ERR_NVGPUCTRPERM" in found.counters.why_not:
        pytest.skip(found.counters.why_not)
    assert found.counters.read, found.counters.why_not
    assert found.traffic is not None
    launches = ncu_details.read(ncu_details.run(RECURRENCE, ROOT / "submissions" / name))
    off = {what: (ours, theirs, apart(ours, theirs)) for what, ours, theirs in figures(found, launches)}
    assert all(each is not None and each <= WITHIN for _, _, each in off.values()), off
    assert found.findings[0].code == first, found.findings


@pytest.mark.usefixtures("counters")
def test_the_bytes_of_a_pass_over_the_data_are_those_of_the_problem(tmp_path):
    source = WAITS.replace("        if float(y[0]) < 0:\n            y = y + 1\n        torch.cuda.synchronize()\n", "")
    found = profiled(source, tmp_path, "ncu").profile
    assert found is not None
    if not found.counters.read:
        pytest.skip(found.counters.why_not)
    assert found.traffic is not None
    assert found.traffic.asked_factor == pytest.approx(1.0, rel=0.02)
    assert 0.5 < found.traffic.factor < 1.1  # what is written may still be in L2 at the end
    counters = found.kernels[0].counters
    assert counters is not None
    assert counters.sector_factor == pytest.approx(1.0, rel=0.02)
