"""The whole way on a CPU: an ordinary worker under a script that stands for compute-sanitizer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import reports

from harness import Problem, Submission
from harness.cli.main import main
from harness.cli.sanitize import show
from harness.cli.streams import console
from harness.events import ignore
from harness.load.problem import ProblemError
from harness.machine.device import DeviceError, open_device
from harness.report import SubmissionInfo
from harness.sandbox import SANDBOXES, Exit, Limit, PlainSandbox, Sandbox
from harness.sanitizing import run as run_module
from harness.sanitizing.findings import Sanitizing, ToolRun
from harness.sanitizing.gather import gather
from harness.sanitizing.places import Places
from harness.sanitizing.run import _Job, sanitize
from harness.sanitizing.smallest import choose_workload
from harness.sanitizing.tool import SanitizerFailed, SanitizerMissing, find_sanitizer

HERE = Path(__file__).parent
PLAIN = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        print("called")
        return x * 2
"""


def job(source: str, sandbox: Sandbox | None = None) -> _Job:
    loaded = Problem.load(HERE / "problem")
    device = open_device("cpu")
    submission = Submission.from_source(source, "mine.py")
    return _Job(
        loaded, loaded.workload(None, "cpu"), submission, device,
        sandbox=sandbox or PlainSandbox(), seed=1 << 70, wait=True, on_event=ignore,
    )  # fmt: skip


def test_a_worker_under_the_tool_makes_its_call_and_ends_by_itself(scripted):
    folder = scripted(reports.OUT_OF_BOUNDS_WRITE)
    ran = job(PLAIN)
    result = ran.run(find_sanitizer(), "memcheck")
    assert result.failure is None
    assert [finding.kind for finding in result.findings] == ["out_of_bounds_write"]
    assert result.ended
    assert "called" in ran.log
    assert (folder / "ended.txt").read_text() == "0"
    seen = json.loads((folder / "ran.json").read_text())
    assert seen["options"][:2] == ["--tool", "memcheck"]
    assert seen["caching"] == "1"
    assert seen["cwd"] != os.getcwd()


def test_in_the_sandbox_that_a_submission_runs_in(scripted):
    if why := SANDBOXES["bubblewrap"].unavailable():
        pytest.skip(why)
    scripted(reports.RACE)
    result = job(PLAIN, SANDBOXES["bubblewrap"]()).run(find_sanitizer(), "racecheck")
    assert (result.failure, len(result.findings)) == (None, 0)
    assert [each.kind for each in result.aside] == ["shared_memory_race"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (PLAIN.replace("return x * 2", "raise ValueError('no such luck')"), "no such luck"),
        (PLAIN.replace("return x * 2", "import os; os._exit(9)"), "exit code"),
        ("import nothing_of_the_kind\nclass ModelNew: ...\n", "nothing_of_the_kind"),
    ],
)
def test_a_submission_that_does_not_come_to_its_end_is_told_with_what_was_found(scripted, source, said):
    scripted(reports.OUT_OF_BOUNDS_WRITE)
    result = job(source).run(find_sanitizer(), "memcheck")
    assert said in result.failure
    assert not result.ended
    assert len(result.findings) == 1


def test_a_tool_that_starts_no_worker_is_its_own_failure(scripted):
    scripted(None)
    with pytest.raises(SanitizerFailed, match="the device is not supported"):
        job(PLAIN).run(find_sanitizer(), "synccheck")


HIDING = """
import os, signal, torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        words = open(f"/proc/{{os.getppid()}}/cmdline").read().split(chr(0))
        with open(words[words.index("--log-file") + 1], "w") as log:
            log.write({report!r})
        os.kill(os.getppid(), signal.SIGSTOP)
        return x * 2
"""


def test_who_stops_the_tool_and_writes_its_report_is_not_clean(scripted, monkeypatch):
    scripted(reports.OUT_OF_BOUNDS_WRITE)
    monkeypatch.setattr(run_module, "_LEAVE_S", 2.0)
    result = job(HIDING.format(report=reports.CLEAN)).run(find_sanitizer(), "memcheck")
    assert "ERROR SUMMARY: 0 errors" in result.printed
    assert not result.ended
    assert "did not end within 2 s" in result.failure


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Exit(0, None, None), None),
        (Exit(1, None, None), None),
        (Exit(None, 9, None), "signal 9"),
        (Exit(137, None, None), "signal 9"),
        (Exit(None, 9, Limit.MEMORY, 1.0, 2.0), "limit of memory"),
    ],
)
def test_an_end_after_the_call_that_is_none_of_the_tool_s_is_told(ended, said):
    words = run_module._broken_off(ended)
    assert (words is None) == (said is None)
    assert said is None or said in words


def test_a_tool_that_fails_after_the_submission_ran_is_told_with_what_was_found_before(scripted):
    folder = scripted(reports.OUT_OF_BOUNDS_WRITE)
    breaking = PLAIN.replace("return x * 2", f"import os; os.remove({str(folder / 'report.txt')!r}); return x * 2")
    runs = run_module._runs(job(breaking), find_sanitizer(), ("memcheck", "synccheck"))
    assert [(run.tool, run.ended) for run in runs] == [("memcheck", False), ("synccheck", False)]
    assert "the submission has run under memcheck before" in runs[1].failure
    assert "the device is not supported" in runs[1].failure


def test_where_there_is_no_sanitizer_it_says_where_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("harness.sanitizing.tool._candidates", lambda: [])
    with pytest.raises(SanitizerMissing, match="CUDA_HOME"):
        find_sanitizer()


def test_one_that_can_start_nothing_is_not_taken(monkeypatch, tmp_path):
    binary = tmp_path / "bin" / "compute-sanitizer"
    binary.parent.mkdir()
    binary.write_bytes(b"\x7fELF")
    binary.chmod(0o755)
    monkeypatch.setattr("harness.sanitizing.tool._candidates", lambda: [binary])
    with pytest.raises(SanitizerMissing, match="TreeLauncherSubreaper"):
        find_sanitizer()


def test_a_cpu_is_wrong_use(capfd):
    with pytest.raises(DeviceError, match="CUDA kernels"):
        sanitize(HERE / "problem", HERE / "clean" / "barrier_error.py", device="cpu")
    argv = ["sanitize", str(HERE / "problem"), str(HERE / "clean" / "barrier_error.py"), "--device", "cpu"]
    assert main(argv) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "a CPU runs none" in err
    assert main([*argv, "--tool", "lint"]) == 2
    assert "there is no tool 'lint'" in capfd.readouterr().err


TOML = """
[default_workload]
cuda = "big"
cpu = "other"
[workloads.big]
args = { n = 100000 }
[workloads.one]
args = { n = 1 }
timed = false
[workloads.small]
args = { n = 5000 }
timed = false
[workloads.other]
args = { n = 4500 }
device = "cpu"
"""


def test_the_workload_is_small_but_more_than_a_thread_s_work(tmp_path):
    (tmp_path / "reference.py").write_text((HERE / "problem" / "reference.py").read_text())
    (tmp_path / "problem.toml").write_text(TOML)
    problem = Problem.load(tmp_path)
    workload, why = choose_workload(problem, None, "cuda")
    assert (workload.name, "5000" in why) == ("small", True)
    assert choose_workload(problem, "one", "cuda")[0].name == "one"
    with pytest.raises(ProblemError, match="no workload"):
        choose_workload(problem, "none", "cuda")
    (tmp_path / "problem.toml").write_text(TOML.replace("100000", "30").replace("5000", "20"))
    assert choose_workload(Problem.load(tmp_path), None, "cuda")[0].name == "big"
    text = (HERE / "problem" / "reference.py").read_text()
    (tmp_path / "reference.py").write_text(text.replace("torch.randn(n)", "torch.tensor([torch.randn(1).item()] * n)"))
    assert choose_workload(Problem.load(tmp_path), None, "cuda")[0].name == "big"


def document(*runs: ToolRun) -> Sanitizing:
    return Sanitizing(
        harness_version="0", created_at="2026-01-01T00:00:00Z", problem="problem", workload="small",
        workload_why="named", submission=SubmissionInfo(path=None, name="mine.py", sha256="0" * 64),
        device=open_device("cpu").info, sanitizer="2026.0", runs=list(runs), seconds=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("report", "code", "words"), [(reports.OUT_OF_BOUNDS_WRITE, 1, "FOUND"), (reports.CLEAN, 0, "CLEAN")]
)
def test_the_command_s_table_document_and_code(monkeypatch, capfd, report, code, words):
    result = gather("memcheck", report, Places("mine.py", PLAIN, []), seconds=1.0, failure=None)
    monkeypatch.setattr(run_module, "sanitize", lambda *_, **__: document(result))
    argv = ["sanitize", str(HERE / "problem"), str(HERE / "clean" / "barrier_error.py"), "--tool", "memcheck"]
    assert main(argv) == code
    out = " ".join(capfd.readouterr().out.split())
    assert words in out
    assert ("thread (136, 0, 0), block (19, 0, 0)" in out) == bool(code)
    assert main([*argv, "--json", "-"]) == code
    read = json.loads(capfd.readouterr().out)
    assert read.pop("clean") == (code == 0)
    assert Sanitizing.model_validate(read).runs == [result]


def test_a_call_that_failed_is_not_clean_and_said(capsys):
    import sys

    failed = document(ToolRun(tool="racecheck", reported=0, ended=False, failure="call: it raised", seconds=1.0))
    assert not failed.clean
    show(failed, console(sys.stdout))
    out = capsys.readouterr().out
    assert "NOT RUN" in out
    assert "it raised" in out
