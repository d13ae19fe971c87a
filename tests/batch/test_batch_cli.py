"""`harness batch` and `harness report`: wrong use with no grading, and one batch that is really graded."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from batch_fakes import RIGHT, problem_file, report

from harness.batch.run import Tally
from harness.batch.store import RESULTS, Result, Store, read_results
from harness.cli.batch_progress import batch_progress, status
from harness.report import Verdict

Harness = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = ROOT / "tests" / "attacks" / "corpus" / "problems"
GOOD = """# problem: scale
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + x
"""
EXTENSION = """# problem: scale
import torch
from torch.utils.cpp_extension import load_inline

# Without torch's headers, which are nearly all of a build's time.
load_inline("b", 'extern "C" long number() { return NUMBER; }', is_python_module=False, no_implicit_headers=True)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + x
"""


@pytest.mark.slow
def test_a_batch_is_graded_goes_on_and_is_summed_up(
    tmp_path: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    subs = tmp_path / "subs"
    subs.mkdir()
    # New each time: what an earlier run of the tests left in the cache would look like built ahead.
    extension = EXTENSION.replace("NUMBER", str(time.time_ns()))
    (subs / "good.py").write_text(extension)
    (subs / "copy.py").write_text(extension)
    (subs / "broken.py").write_text(GOOD + "(")
    lines = tmp_path / "more.jsonl"
    lines.write_text(
        json.dumps({"id": "wrong", "problem": "scale", "source": GOOD.replace("x + x", "x + 1")})
        + "\nnonsense\n"
        + json.dumps({"id": "binary", "problem": "scale", "source": "\ud800"})
        + "\n"
    )
    run = tmp_path / "run"
    argv = ["batch", "--problems", PROBLEMS / "scale", "--submissions", subs, "--submissions", lines]
    argv += ["--out", run, "--devices", "cpu", "--check"]
    code, out, err = harness(*argv)
    assert (code, out) == (1, ""), err
    assert f"{lines}:2: it is no JSON object" in err
    assert "5 of 5" in err
    results = {result.id: result for result in read_results(run)}
    assert {name: result.report.reason.code for name, result in results.items()} == {
        "good.py": "grade.correct",
        "copy.py": "grade.correct",
        "broken.py": "submission.syntax_error",
        "wrong": "output.values",
        "binary": "submission.not_utf8",
    }
    assert [name for name, result in results.items() if result.same_as] in (["good.py"], ["copy.py"])
    built = results["good.py"].report.build
    assert built.cached, "it was built ahead, so the grading found it"
    assert results["good.py"].report.submission.path == str(subs / "good.py")
    before = (run / RESULTS).read_bytes()
    code, _, err = harness(*argv)
    assert "0 graded, 0 of the same content, 5 there before" in err
    assert (run / RESULTS).read_bytes() == before
    page = tmp_path / "page.html"
    code, out, err = harness("report", run, "--html", page)
    assert (code, err) == (0, "")
    assert "2/5" in out
    assert "scale" in out
    assert "submission.syntax_error" in out
    assert "1 inputs could not be used" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert page.read_text().startswith("<!doctype html>")
    code, out, _ = harness("report", run, "--json")
    assert json.loads(out)["groups"][0]["right"] == 2


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_leaves_whole_results(tmp_path: Path) -> None:
    subs = tmp_path / "subs"
    subs.mkdir()
    (subs / "a.py").write_text("# nothing\n")
    (subs / "b.py").write_text("import time\nimport torch\ntime.sleep(1000)\nclass ModelNew(torch.nn.Module): ...\n")
    run = tmp_path / "run"
    argv = ["batch", "--problems", PROBLEMS / "scale", "--submissions", subs, "--out", run, "--devices", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *argv],
        cwd=ROOT,
        env={**os.environ, "HARNESS_LOCK_DIR": str(tmp_path / "locks")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    started: list[psutil.Process] = []
    # Until the second is at work: the grading process has started the worker, through a supervisor.
    while len(started) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        if (run / RESULTS).exists() and (run / RESULTS).read_bytes().count(b"\n") == 1:
            started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "harness: interrupted"
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(started, timeout=5)
    assert alive == []
    (result,) = read_results(run)
    assert result.id == "a.py"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--problems", "nowhere"], "no problem that can be used"),
        (["--executor", "abacus"], "there is no executor 'abacus'"),
        (["--executor", "server", "--budget", "1"], "its own interval, budget and sandbox"),
        (["--executor", "server", "--server", "http://127.0.0.1:1"], "can't be reached"),
        (["--submissions", "nowhere"], "no submission that can be graded"),
        (["--devices", "cuda:77"], "There is no"),
        (["--devices", "cpu,cpu"], "name each device once"),
        (["--workload", "vast"], "no workload 'vast'"),
    ],
)
def test_wrong_use_is_told_before_anything_is_graded(
    tmp_path: Path, harness: Harness, argv: list[str], says: str
) -> None:
    submission = tmp_path / "a.py"
    submission.write_text(RIGHT)
    given = {
        "--problems": str(problem_file(tmp_path / "p", "softmax")),
        "--submissions": str(submission),
        "--out": str(tmp_path / "run"),
        "--devices": "cpu",
        **dict(zip(argv[::2], argv[1::2], strict=True)),
    }
    code, out, err = harness("batch", *(part for pair in given.items() for part in pair))
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "run").exists()


def test_a_run_that_somebody_else_writes_or_began_otherwise_is_refused(tmp_path: Path, harness: Harness) -> None:
    submission = tmp_path / "a.py"
    submission.write_text(RIGHT)
    argv = ["batch", "--problems", problem_file(tmp_path / "p", "softmax"), "--submissions", submission]
    argv += ["--out", tmp_path / "run", "--devices", "cpu"]
    with Store(tmp_path / "run", {}):
        code, _, err = harness(*argv)
        assert (code, "Another process is adding" in err) == (2, True)
    code, _, err = harness(*argv)
    assert (code, "graded otherwise" in err) == (2, True)


def test_one_reason_of_many_inputs_is_told_once(tmp_path: Path, harness: Harness) -> None:
    subs = tmp_path / "subs"
    subs.mkdir()
    for number in range(7):
        (subs / f"{number}.py").write_text(RIGHT)
    for name in ("one", "two"):
        problem_file(tmp_path / "problems", name, f"# {name}\n")
    argv = ["batch", "--problems", tmp_path / "problems", "--submissions", subs, "--out", tmp_path / "run"]
    code, out, err = harness(*argv)
    assert (code, out) == (2, "")
    assert err.count("can't be told which problem") == 1
    named = ", ".join(str(subs / f"{number}.py") for number in range(5))
    assert f"{named} and 2 more: it can't be told" in err


def test_report_needs_a_run(tmp_path: Path, harness: Harness) -> None:
    code, _, err = harness("report", tmp_path)
    assert (code, "no results" in err) == (2, True)
    code, _, err = harness("report", tmp_path, "--html", tmp_path / "no" / "x.html")
    assert (code, "no such folder" in err) == (2, True)


def test_the_table_fits_a_terminal_and_shows_no_escapes(tmp_path: Path, harness: Harness) -> None:
    name = "level9/100_a_problem_with_a_very_long_name_indeed\x1b[31m"
    with Store(tmp_path, {}) as store:
        for number in range(120):
            graded = report(speedup=1.0 + number) if number % 3 else report(Verdict.WRONG_ANSWER, "output.values")
            store.add(
                [Result(id=f"s{number}\x1b[2J", problem=name, level=9, attempt=1, key=f"{number}", report=graded)]
            )
    code, out, err = harness("report", tmp_path)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "80/120" in out
    assert "67 %" in out


def test_progress_counts_what_was_done_now() -> None:
    tally = Tally(total=100, before=40, graded=10, shared=10, verdicts=Counter(accepted=50, wrong_answer=10))
    assert status(tally, 36.0) == "60 of 100, 1000 an hour, 72 s left; 50 accepted, 10 wrong_answer"
    assert status(Tally(total=5), 0.0) == "0 of 5"


def test_a_log_gets_a_line_now_and_then_and_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 1.0, 2.0, 12.0, 13.0, 14.0])
    result = Result(id="a", problem="p", attempt=1, key="k", report=report())
    with batch_progress(sys.stderr, lambda: next(clock)) as told:
        for done in range(1, 6):
            told(result, Tally(total=5, graded=done))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["1 of 5", "3 of 5", "5 of 5"]


def test_a_terminal_gets_a_bar_and_keeps_the_last_line() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    result = Result(id="a", problem="p", attempt=1, key="k", report=report())
    with batch_progress(stream) as told:
        for done in range(1, 4):
            told(result, Tally(total=3, graded=done, verdicts=Counter(accepted=done)))
    last = stream.getvalue().splitlines()[-1]
    assert re.search(r"3 of 3, \d+ an hour; 3 accepted$", last), last
