"""Whole profiles, on the CPU; and Nsight Compute's place around a worker, taken by a script that only writes a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import profile_samples
import pytest

from harness import Report, profile
from harness.check.oracle import Oracle
from harness.cli.main import main
from harness.grading.grader import grade
from harness.load.problem import Problem
from harness.load.program import Program
from harness.machine.device import DeviceError, open_device
from harness.profiling import ncu
from harness.profiling.counted import Counted, Counter, Subject, counting
from harness.profiling.metrics import METRICS
from harness.sandbox import default
from harness.seeds import Seeds
from harness.workers.process import Terms, WorkerProcess, Wrapper
from harness.workers.worker import Worker

WRAPPER = """#!{python}
# Stands where Nsight Compute does: runs what it is given, and then writes a page by hand.
import subprocess, sys
if "--version" in sys.argv:
    print("Version 2025.3.1.0 (build 1)")
    sys.exit(0)
command = next(number for number, word in enumerate(sys.argv) if word == {python!r})
options = sys.argv[1:command]
assert options[options.index("--clock-control") + 1] == "none"
if {lacks!r} in options[options.index("--metrics") + 1].split(","):
    print("==ERROR== Failed to find metric", {lacks!r})
    sys.exit(1)
code = subprocess.run(sys.argv[command:], close_fds=False).returncode
with open(options[options.index("--log-file") + 1], "w") as page:
    page.write({page!r})
    page.write("==PROF== the program ended with %d\\n" % code)
"""


def test_a_cpus_profile_has_the_call_its_operators_and_the_cores(problem, submission, capfd):
    path = submission()
    assert main(["profile", str(problem), str(path), "--device", "cpu", "--json", "-"]) == 0
    report = Report.model_validate_json(capfd.readouterr().out)
    assert [stage.name for stage in report.stages] == ["load", "build", "check", "audit", "profile", "judge"]
    found = report.profile
    assert found is not None
    assert found.call.us > 0
    assert found.call.range_us[0] <= found.call.us <= found.call.range_us[1]
    assert found.call.needed_bytes == 2 * 4 * 64 * 64
    assert {"aten::mm", "aten::exp", "aten::sum"} <= {operator.name for operator in found.operators}
    assert "aten::softmax" not in {operator.name for operator in found.operators}
    assert sum(operator.share for operator in found.operators) == pytest.approx(1.0)
    assert found.cores_used is not None
    assert found.cores_used > 0
    assert found.device is None
    assert found.kernels == []
    assert "CPU" in found.counters.why_not


def test_what_does_not_pass_the_check_is_not_profiled_and_says_why(problem, submission):
    wrong = profile(problem, submission(profile_samples.RIGHT.replace("x @ x", "x + x")), device="cpu")
    assert (wrong.mode, wrong.reason.code, wrong.profile) == ("profile", "output.values", None)
    assert wrong.exit_code == 1
    assert "profile" not in [stage.name for stage in wrong.stages]


def test_counters_of_a_cpu_can_not_be_asked_for(problem, submission):
    with pytest.raises(DeviceError, match="this is a CPU"):
        grade(problem, submission(), device="cpu", mode="profile", profiler="ncu")


def test_where_there_is_no_nsight_compute_that_is_what_the_profile_says(monkeypatch):
    monkeypatch.setattr("harness.profiling.ncu.find", lambda: None)
    with counting(None, None, wanted=True) as count:  # type: ignore[arg-type]
        found = count(None)  # type: ignore[arg-type]
    assert not found.source.read
    assert "Nsight Compute was not found" in found.source.why_not


def test_nsight_compute_is_found_on_the_path_or_in_cuda_home(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "ncu"
    tool.write_text("#!/bin/sh\necho 'NVIDIA (R) Nsight Compute Command Line Profiler'\necho 'Version 2025.3.1.0'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert ncu.find() == ncu.Ncu(tool, "2025.3.1.0")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert ncu.find() == ncu.Ncu(tool, "2025.3.1.0")
    tool.write_text("#!/bin/sh\nexit 1\n")
    found = ncu.find()
    assert found is None or found.path != tool


@pytest.mark.parametrize("program", ["ncu", "target/linux-desktop-glibc_2_11_3-x64/ncu"])
def test_the_sandbox_shows_the_whole_of_an_installation_also_behind_a_link(tmp_path, program):
    real = tmp_path / "2025.3.1" / program
    real.parent.mkdir(parents=True)
    real.touch()
    (tmp_path / "ncu").symlink_to(real)
    with ncu.page() as page:
        wrapper = page.wrapper(ncu.Ncu(tmp_path / "ncu", "2025.3.1.0"), ncu.reading())
    assert wrapper.argv[0] == str(real)
    assert tmp_path / "2025.3.1" in [mount.source for mount in wrapper.mounts]


@pytest.fixture
def counted(problem: Path, tmp_path: Path) -> Callable[..., Counted]:
    """One call in a worker of the usual sandbox, under a script in the place of Nsight Compute."""
    device, loaded, sandbox = open_device("cpu"), Problem.load(problem), default()

    def start(wrapper: Wrapper) -> Worker:
        terms = Terms(sandbox, device.place, None)
        return Worker(
            WorkerProcess(terms, memory_bytes=None, wrapper=wrapper),
            device,
            flush_bytes=1 << 20,
            patience_s=120.0,
            on_build=lambda _: pytest.fail("nothing is to be built"),
            share_device=False,
        )

    def count(page: str, source: str = profile_samples.RIGHT, lacks: str = "") -> Counted:
        tool = tmp_path / "ncu"
        tool.write_text(WRAPPER.format(python=sys.executable, page=page, lacks=lacks))
        for path in (tmp_path, tool):
            path.chmod(0o755)
        seeds = Seeds(7)
        seeds.draw()
        with Counter(ncu.Ncu(tool, "2025.3.1.0"), start) as counter:
            oracle = Oracle(loaded, loaded.workload(None, "cpu"), counter.torch_device)
            return counter.count(Subject(Program(source, "answer.py"), seeds, loaded.spec.limits, sandbox.name), oracle)

    return count


@pytest.mark.parametrize(
    ("page", "read", "why"),
    [
        (profile_samples.raw_page({"time_ns": "1500"}), 1, ""),
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", 0, "NVreg_RestrictProfilingToAdminUsers"),
    ],
)
def test_a_worker_runs_inside_nsight_compute_inside_the_sandbox(page, read, why, counted):
    found = counted(page)
    assert (found.source.read, len(found.launches)) == (bool(read), read)
    assert why in found.source.why_not


def test_metrics_that_are_not_known_there_are_left_out_in_a_second_try(counted):
    found = counted(profile_samples.raw_page({"time_ns": "1500"}), lacks=METRICS["tensor_use"])
    assert found.source.read


def test_a_submission_that_fails_under_nsight_compute_leaves_what_was_read_and_why(counted):
    fails = profile_samples.RIGHT.replace("        y = (x @ x)", "        raise ValueError('not here')")
    found = counted("", fails)
    assert not found.source.read
    assert "not here" in found.source.why_not


def test_the_documents_schema_knows_the_profile():
    schema = Report.model_json_schema(mode="serialization")
    assert "Profile" in schema["$defs"]
    assert schema["$defs"]["Finding"]["properties"]["gain_us"]["description"]
    json.dumps(schema)


def test_the_package_for_profiles_is_not_what_a_worker_sees():
    from harness.workers.process import _SEEN_BY_WORKERS

    assert "profiling" not in _SEEN_BY_WORKERS
    assert Path(ncu.__file__).parent.name == "profiling"
