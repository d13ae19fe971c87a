"""Whatever is handed in, a clear answer comes out, and nothing stays behind: real gradings, on the CPU.

Every case that reaches a worker costs a few seconds, the import of torch, so each is graded once.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tiny import REFERENCE, TOML

from harness import Report

Graded = Callable[..., Report]
Cli = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import ctypes, os, signal, sys, threading, time
import torch
from torch import nn
"""
RIGHT = """
class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return torch.relu(x) * self.factor
"""
PATIENT = "[limits]\nmemory_gb = 3\n[workloads.default]\ntrials = 2\n"
HURRIED = "[limits]\nimport_s = 2\ncall_s = 2\n[workloads.default]\ntrials = 2\n"
SMALL = "[limits]\nmemory_gb = 1\n[workloads.default]\ntrials = 2\n"


def on_import(statement: str) -> str:
    return f"{HEAD}\n{statement}\n{RIGHT}"


def in_constructor(statement: str) -> str:
    return HEAD + RIGHT.replace("self.factor = factor", f"self.factor = factor\n        {statement}")


def in_forward(body: str) -> str:
    """`body` before the right result is returned, unless it returns itself."""
    return HEAD + RIGHT.replace("        return torch", f"        {body}\n        return torch")


def returning(expression: str) -> str:
    """What is made of the right result `y`."""
    return HEAD + RIGHT.replace(
        "return torch.relu(x) * self.factor", f"y = torch.relu(x) * self.factor\n        return {expression}"
    )


@dataclass(frozen=True)
class Case:
    """A submission and its answer."""

    source: str | bytes
    verdict: str
    code: str
    says: str
    """Words of the sentence, as a pattern."""
    toml: str = PATIENT
    evidence: dict[str, object] = field(default_factory=dict)


TEXTS = {
    "not UTF-8": Case(b"class ModelNew: pass  # \xff", "invalid_submission", "submission.not_utf8", "save it as UTF-8"),
    "empty": Case("", "invalid_submission", "submission.empty", "is empty; write a class ModelNew"),
    "5 MB": Case("#" * (5 << 20), "invalid_submission", "submission.too_large", "larger than the limit of 1048576"),
    "syntax error": Case("class ModelNew(:\n", "invalid_submission", "submission.syntax_error", "line 1.*correct it"),
    "no ModelNew": Case(
        HEAD + RIGHT.replace("ModelNew", "ModeNew"),
        "invalid_submission",
        "submission.no_model_new",
        "rename the class ModeNew",
    ),
}

RUNS = {
    "ModelNew taken away": Case(
        on_import("") + "\nModelNew = None\n",
        "invalid_submission",
        "submission.no_model_new",
        "ModelNew is not defined",
    ),
    "ModelNew no class": Case(
        HEAD + "\nModelNew = 3\n", "invalid_submission", "submission.no_model_new", "is int, not a class"
    ),
    "other constructor arguments": Case(
        HEAD + RIGHT.replace("self, factor", "self, factor, size"),
        "invalid_submission",
        "submission.signature",
        "missing a required argument: 'size'.*Take the same constructor arguments",
    ),
    "raises on import": Case(
        on_import("raise ValueError('not today')"),
        "runtime_error",
        "run.exception",
        "ValueError while it was imported, line 6: not today; correct what raises it",
        evidence={"line": 6},
    ),
    "imports what is not there": Case(
        on_import("import no_such_package"), "runtime_error", "run.exception", "No module named 'no_such_package'"
    ),
    "raises in the constructor": Case(
        in_constructor("raise ValueError('not today')"),
        "runtime_error",
        "run.exception",
        "ValueError in the constructor, line 10: not today",
    ),
    "raises a TypeError in the constructor": Case(
        in_constructor("len(3)"), "runtime_error", "run.exception", "TypeError in the constructor"
    ),
    "raises in forward": Case(
        in_forward("raise ValueError('first line\\nsecond line')"),
        "runtime_error",
        "run.exception",
        "ValueError in forward, line 12: first line; correct what raises it.$",
        evidence={"phase": "call", "error": "ValueError"},
    ),
    "raises what has no words": Case(
        in_forward("assert x.sum() == 0"), "runtime_error", "run.exception", "AssertionError in forward"
    ),
    "raises KeyboardInterrupt": Case(
        in_forward("raise KeyboardInterrupt"), "runtime_error", "run.exception", "KeyboardInterrupt in forward"
    ),
    "an error whose text can't be had": Case(
        HEAD + "class Mean(Exception):\n    def __str__(self): raise Mean\n" + in_forward("raise Mean")[len(HEAD) :],
        "runtime_error",
        "run.exception",
        "Mean in forward",
    ),
    "recursion without end": Case(
        in_forward("return self.forward(x)"), "runtime_error", "run.exception", "RecursionError in forward"
    ),
    "sys.exit on import": Case(
        on_import("sys.exit(0)"), "runtime_error", "run.exit", "called sys.exit while it was imported"
    ),
    "sys.exit in forward": Case(in_forward("sys.exit(1)"), "runtime_error", "run.exit", "called sys.exit in forward"),
    "os._exit on import": Case(
        on_import("os._exit(0)"), "runtime_error", "run.died", r"while it was imported \(exit code 0\)"
    ),
    "os._exit in forward": Case(
        in_forward("os._exit(0)"), "runtime_error", "run.died", r"ended its process in forward \(exit code 0\)"
    ),
    "SIGKILL": Case(
        in_forward("os.kill(os.getpid(), signal.SIGKILL)"),
        "runtime_error",
        "run.signal",
        "SIGKILL ended the submission's process in forward",
        evidence={"signal": 9},
    ),
    "SIGSEGV": Case(
        in_forward("ctypes.string_at(8)"),
        "runtime_error",
        "run.signal",
        "SIGSEGV ended the submission's process in forward: it used memory that is not its own",
        evidence={"signal": 11},
    ),
    "never returns": Case(
        in_forward("while True: pass"),
        "time_limit",
        "limit.call_time",
        "No answer in forward within 2 s, the limit: look for",
        toml=HURRIED,
        evidence={"limit_s": 2.0},
    ),
    "never returns, and can't be interrupted": Case(
        in_forward("[signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(1e6)"),
        "time_limit",
        "limit.call_time",
        "No answer in forward",
        toml=HURRIED,
    ),
    "never ends its import": Case(
        on_import("time.sleep(1e6)"),
        "time_limit",
        "limit.import_time",
        "No answer while it was imported within 2 s",
        toml=HURRIED,
    ),
    "prints 100 MB": Case(
        in_forward("[print('x' * 999_999) for _ in range(100)]"),
        "output_limit",
        "limit.output",
        "over its limit of printed output in forward: .* MB are allowed; print less",
    ),
    "allocates more than there is": Case(
        in_forward("torch.empty(1 << 50)"), "memory_limit", "limit.host_memory", "Out of host memory in forward"
    ),
    "allocates all memory": Case(
        in_forward("self.kept = [torch.ones(16 << 20) for _ in range(10_000)]"),
        "memory_limit",
        "limit.host_memory",
        "over its limit of host memory in forward: it used .* MB, 1000 MB are allowed; use less",
        toml=SMALL,
    ),
    "returns None": Case(
        returning("None"), "wrong_answer", "output.structure", "output is None, the reference returns a tensor"
    ),
    "a list for a tensor": Case(
        returning("[y]"), "wrong_answer", "output.structure", "output is a list.*the reference returns a tensor"
    ),
    "a function for a tensor": Case(
        returning("lambda: y"), "wrong_answer", "output.structure", "output is .*function.*a tensor"
    ),
    "a list without end": Case(
        in_forward("self.l = []; self.l.append(self.l); return self.l"),
        "wrong_answer",
        "output.structure",
        "nested deeper",
    ),
    "another dtype": Case(
        returning("y.double()"),
        "wrong_answer",
        "output.dtype",
        "output has dtype float64; return dtype float32, as the reference does",
    ),
    "another shape": Case(
        returning("y[:, :1]"),
        "wrong_answer",
        "output.shape",
        r"output has shape \[16, 1\]; return shape \[16, 64\]",
    ),
    "another device": Case(
        returning("y.to('meta')"), "wrong_answer", "output.device", "output has device meta; return device cpu"
    ),
    "a sparse tensor": Case(
        returning("y.to_sparse()"),
        "rejected",
        "output.tensor_type",
        "layout torch.sparse_coo; return a plain torch.Tensor",
    ),
    "NaN": Case(
        returning("y.masked_fill_(y == y[3, 7], float('nan'))"),
        "wrong_answer",
        "output.values",
        r"farthest at output\[\d+\]\[\d+\]: nan, expected",
    ),
    "a lazy subclass": Case(
        on_import(
            "class Lazy(torch.Tensor):\n"
            "    @classmethod\n"
            "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
            "        return torch.Tensor.__torch_function__(f, (), args, kwargs or {})\n"
        ).replace("return torch.relu(x) * self.factor", "return (torch.relu(x) * self.factor).as_subclass(Lazy)"),
        "rejected",
        "output.tensor_type",
        "output is a answer.Lazy; return a plain torch.Tensor",
    ),
    "the same memory for every result": Case(
        HEAD
        + RIGHT.replace("self.factor = factor", "self.factor, self.kept = factor, torch.empty(16, 64)").replace(
            "return torch.relu(x) * self.factor", "return torch.mul(torch.relu(x), self.factor, out=self.kept)"
        ),
        "rejected",
        "output.overwritten",
        "was right when forward returned and changed afterwards",
    ),
    "changes its input": Case(
        in_forward("x.relu_()"), "rejected", "input.mutated", r"changed its argument inputs\[0\].*work on a copy"
    ),
    "a thread that never ends": Case(
        in_forward("threading.Thread(target=lambda: time.sleep(1e6)).start()"), "accepted", "grade.correct", "matches"
    ),
    "no standard output": Case(
        on_import("sys.stdout.close(); sys.stdout = sys.stderr = None"), "accepted", "grade.correct", "matches"
    ),
    "closes every descriptor": Case(
        in_forward("os.closerange(3, 4096)"), "runtime_error", "run.died", "ended its process in forward"
    ),
    "writes to every descriptor": Case(
        in_forward(
            "for n in range(3, 99):\n"
            "            name = f'/proc/self/fd/{n}'\n"
            "            os.path.exists(name) and 'socket' in os.readlink(name) and os.write(n, b'x' * 64)"
        ),
        "runtime_error",
        "run.protocol",
        "stopped answering properly in forward.*Leave the file descriptors.*alone",
    ),
    "a child that holds on to its connection": Case(
        in_forward("os.fork() and os._exit(3); time.sleep(1e6)"), "runtime_error", "run.died", "exit code 3"
    ),
    "100 MB of text for a tensor": Case(
        returning("'x' * 100_000_000"), "wrong_answer", "output.structure", "too large to be passed on"
    ),
    "another order in memory": Case(returning("y.t().contiguous().t()"), "accepted", "grade.correct", "matches"),
    "a negative view": Case(returning("torch._neg_view(-y)"), "accepted", "grade.correct", "matches"),
    "memory taken away": Case(
        returning("(y, y.untyped_storage().resize_(0))[0]"), "runtime_error", "run.signal", "SIGSEGV"
    ),
    "other defaults": Case(
        on_import("torch.set_default_dtype(torch.float16); torch.set_default_device('meta')"),
        "accepted",
        "grade.correct",
        "matches",
    ),
    "CUDA sources": Case(
        HEAD
        + "from torch.utils.cpp_extension import load_inline\n"
        + "m = load_inline('m', cpp_sources='torch::Tensor f(torch::Tensor x);', cuda_sources='__global__ void k() {}',"
        " functions=['f'])\n" + RIGHT,
        "runtime_error",
        "run.needs_cuda",
        "needs CUDA, and this grading runs on the CPU.*machine with a GPU",
    ),
    "a tensor on CUDA": Case(
        in_forward("x = x.cuda()"), "runtime_error", "run.needs_cuda", "needs CUDA, and this grading runs on the CPU"
    ),
    "parameters on CUDA": Case(
        in_constructor("self.w = nn.Parameter(torch.ones(1, device='cuda'))"),
        "runtime_error",
        "run.needs_cuda",
        "needs CUDA, and this grading runs on the CPU",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_is_no_submission(name: str, graded: Callable[..., Report]) -> None:
    case = TEXTS[name]
    check_answer(graded(case.source), case)


@pytest.mark.parametrize("name", RUNS)
def test_a_submission_that_misbehaves(name: str, graded: Callable[..., Report]) -> None:
    case = RUNS[name]
    check_answer(graded(case.source, toml=case.toml), case)


def check_answer(report: Report, case: Case) -> None:
    reason = report.reason
    assert (report.verdict.value, reason.code) == (case.verdict, case.code), reason
    assert re.search(case.says, reason.message), reason.message
    assert reason.evidence.items() >= case.evidence.items()
    assert_plain(reason.message)
    trace = reason.evidence.get("traceback", "")
    assert "harness/" not in trace, trace
    assert "CUDA runtime" not in report.log
    assert report.exit_code == (0 if case.verdict == "accepted" else 1)


def assert_plain(message: str) -> None:
    """A sentence or two for people: no line breaks, no traceback."""
    assert message == message.strip()
    assert message.endswith((".", "?")), message
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(message) < 600


def test_a_limit_of_memory_comes_from_the_machine_where_the_problem_sets_none(graded: Graded, monkeypatch) -> None:
    monkeypatch.setattr("harness.workers.process.spare_memory", lambda: 1_250_000_000)
    case = RUNS["allocates all memory"]
    check_answer(graded(case.source, toml="[workloads.default]\ntrials = 2\n"), case)


def test_processes_that_it_leaves_end_with_the_grading(graded: Graded, tmp_path: Path) -> None:
    marker = f"9{os.getpid()}.25"
    start = f"import subprocess; subprocess.Popen(['sleep', '{marker}'], start_new_session=True)"
    source = in_forward(f"{start}; os.fork() or (os.setsid(), os.fork(), time.sleep({marker}))")
    assert graded(source).reason.code == "grade.correct"
    assert [p for p in psutil.process_iter(["cmdline"]) if marker in " ".join(p.info["cmdline"] or [])] == []


LATE = """
class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        y = torch.zeros_like(x)
        fill = lambda: torch.mul(torch.relu(x), self.factor, out=y)
        START
        return y
"""


def test_a_result_that_a_thread_fills_in_too_late_is_wrong(graded: Graded) -> None:
    report = graded(HEAD + LATE.replace("START", "threading.Timer(60, fill).start()"))
    assert (report.verdict.value, report.reason.code) == ("wrong_answer", "output.values")


def test_a_result_that_is_right_only_after_the_return_is_told_from_a_wrong_one(graded: Graded) -> None:
    # Done in the very moment after the harness has taken its copy, as a thread could do if it were lucky.
    lucky = "clone = torch.clone; torch.clone = lambda t: (clone(t), fill())[0]"
    report = graded(HEAD + LATE.replace("START", lucky))
    assert (report.verdict.value, report.reason.code) == ("rejected", "output.unfinished")
    assert_plain(report.reason.message)


# The command line on what is no problem and no submission.


def raising(function: str) -> str:
    """The reference, with one of its functions broken."""
    return re.sub(rf"( *)(def {function}\(.*\):\n)", r"\1\2\1    raise RuntimeError('broken')\n", REFERENCE)


@pytest.mark.parametrize(
    ("reference", "toml", "says"),
    [
        (REFERENCE, None, "problem.toml"),
        (None, TOML, "reference.py"),
        (REFERENCE, TOML.replace("call_s", "call_seconds"), "there is no key 'call_seconds'.*did you mean 'call_s'"),
        (REFERENCE, TOML.replace("trials = 2", "trials = 'two'"), "line 8.*'trials' in .workloads.default. is 'two'"),
        (REFERENCE, "[limits", "problem.toml is not TOML"),
        (REFERENCE.replace("class Model(", "class Modell("), TOML, "reference.py does not define Model;"),
        ("raise RuntimeError('broken')\n" + REFERENCE, TOML, "reference.py, line 1: .*RuntimeError: broken; correct"),
        ("def f(:" + REFERENCE, TOML, "reference.py, line 1"),
        (raising("get_inputs"), TOML, r"reference.py, line \d+: get_inputs raised RuntimeError: broken"),
        (raising("get_init_inputs"), TOML, r"reference.py, line \d+: get_init_inputs raised RuntimeError: broken"),
        (raising("__init__"), TOML, r"Model\(\.\.\.\) raised RuntimeError: broken"),
        (raising("forward"), TOML, r"reference.py, line \d+: Model.forward raised RuntimeError: broken"),
    ],
    ids=lambda value: value[:40].strip() if isinstance(value, str) and "\n" not in value else "",
)
def test_a_problem_that_is_none_is_wrong_use(
    harness: Cli, problem_folder, submission_file, nothing_left: None, reference: str, toml: str, says: str
) -> None:
    code, out, err = harness("check", problem_folder(reference, toml), submission_file(HEAD + RIGHT), "--device", "cpu")
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert re.search(says, last), err
    assert last.startswith("harness: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("missing", ["problem", "submission"])
def test_a_missing_file_is_wrong_use(harness: Cli, problem_folder, submission_file, missing: str) -> None:
    paths = {"problem": problem_folder(), "submission": submission_file(HEAD + RIGHT)}
    paths[missing] = paths[missing].with_name("not_there.py")
    code, out, err = harness("run", paths["problem"], paths["submission"], "--device", "cpu")
    assert (code, out) == (2, "")
    assert "not_there.py" in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "INVALID SUBMISSION"),
        (b"\xff", "INVALID SUBMISSION"),
        (in_forward("raise ValueError('not today')"), "RUNTIME ERROR"),
        (in_forward("os._exit(0)"), "RUNTIME ERROR"),
    ],
)
def test_the_command_line_says_it_in_a_table_and_ends_with_1(
    harness: Cli, problem_folder, submission_file, nothing_left: None, source: str | bytes, says: str
) -> None:
    code, out, err = harness("run", problem_folder(), submission_file(source), "--device", "cpu")
    assert code == 1
    assert says in out.upper().replace("_", " ")
    assert "harness/worker" not in out + err
    assert "Traceback" not in err


def test_ctrl_c_leaves_nothing_running_and_the_next_grading_works(problem_folder, submission_file, graded) -> None:
    submission = submission_file(in_forward("time.sleep(1e6)"))
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", problem_folder(), submission, "--device", "cpu"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Its own group, and signals as a shell's foreground job has them, whatever runs these tests.
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("build"):
        assert line, "it ended before its build did"
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) > 2
    # As a terminal does it: to the whole foreground group.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "harness: interrupted"
    assert "Traceback" not in err
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert graded(HEAD + RIGHT).reason.code == "grade.correct"
