"""`harness run` and `harness check`: what goes to the engine, what comes out, and every exit code."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from pathlib import Path

import cli_fakes
import pytest

from harness.events import Progress, StageEnded, StageStarted
from harness.load.problem import ProblemError
from harness.load.submission import SubmissionError
from harness.machine.device import DeviceError
from harness.report import Report, Verdict
from harness.sandbox.base import SandboxError

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
NOISE = "the reference says hello\nthe compiler says hello\n"
"""What the fake engine prints on stdout, from Python and from below it."""
STAGES = (
    StageStarted("check"),
    Progress("check", "trial 1 of 5 \x1b[31mof \rs6", 1, 5),
    StageEnded("check", 2.4),
)


def test_options_reach_the_engine(engine, harness):
    fake = engine(cli_fakes.accepted())
    harness(
        "run", "p", "s.py", "--device", "cuda:1", "--workload", "odd", "--seed", str(2**128 - 1), "--sandbox", "plain"
    )
    assert fake.calls == [
        {
            "problem": "p",
            "submission": "s.py",
            "device": "cuda:1",
            "workload": "odd",
            "seed": 2**128 - 1,
            "mode": "run",
            "sandbox": "plain",
        }
    ]


def test_check_asks_for_no_timing_and_auto_is_the_default_device(engine, harness):
    fake = engine(cli_fakes.accepted(mode="check", timing=None))
    code, out, _ = harness("check", "p", "s.py")
    assert code == 0
    assert fake.calls[0]["mode"] == "check"
    assert fake.calls[0]["device"] == "auto"
    assert "checked only" in out


def test_compile_passes_the_architecture_on(engine, harness):
    fake = engine(cli_fakes.accepted(mode="compile", timing=None, correctness=None))
    code, out, _ = harness("compile", "p", "s.py", "--arch", "9.0a")
    assert code == 0
    assert fake.calls == [{"problem": "p", "submission": "s.py", "mode": "compile", "sandbox": None, "arch": "9.0a"}]
    assert "compiled only" in out
    harness("compile", "p", "s.py")
    assert re.fullmatch(r"\d+\.\d", fake.calls[1]["arch"])


def test_an_architecture_that_is_none_is_wrong_use(engine, harness):
    fake = engine(cli_fakes.accepted())
    code, out, err = harness("compile", "p", "s.py", "--arch", "hopper")
    assert (code, out, fake.calls) == (2, "", [])
    assert_one_sentence(err)


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (cli_fakes.accepted(), 0),
        (cli_fakes.wrong_answer(), 1),
        (cli_fakes.report(Verdict.UNSTABLE, "device.unsteady", "The clock moved."), 1),
        (cli_fakes.report(Verdict.JUDGE_ERROR, "judge.failed", "The grader failed."), 3),
    ],
)
def test_the_verdict_decides_the_exit_code(engine, harness, report, code):
    engine(report)
    assert harness("run", "p", "s.py")[0] == code


@pytest.mark.parametrize("report", [cli_fakes.accepted(), cli_fakes.compile_error(), cli_fakes.runtime_error()])
def test_with_json_stdout_is_one_document_and_nothing_else(engine, harness, report):
    engine(report, *STAGES)
    _, out, err = harness("run", "p", "s.py", "--json", "-")
    assert Report.model_validate(json.loads(out)) == report
    assert NOISE in err


def test_text_that_is_no_utf8_and_numbers_that_are_no_json_still_make_a_document(engine, harness):
    evidence = {"got\ud800": "\ud800", "values": [float("nan"), float("-inf"), 1.0]}
    engine(cli_fakes.report(Verdict.WRONG_ANSWER, "output.values", "\udc80", evidence, log="\ud800"))
    _, out, _ = harness("run", "p", "s.py", "--json", "-")
    document = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    name, values = document["reason"]["evidence"].items()
    assert name[1] == "?"
    assert values == ("values", ["NaN", "-Infinity", 1.0])
    assert document["log"] == "?"


def test_a_json_file_is_written_whole_beside_the_table(engine, harness, tmp_path: Path):
    engine(cli_fakes.accepted())
    target = tmp_path / "report.json"
    target.write_text("what was there before")
    code, out, _ = harness("run", "p", "s.py", "--json", str(target))
    assert code == 0
    assert "ACCEPTED" in out
    assert Report.model_validate_json(target.read_text()) == cli_fakes.accepted()
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask


def test_a_json_file_that_is_a_link_keeps_being_one(engine, harness, tmp_path: Path):
    engine(cli_fakes.accepted())
    link = tmp_path / "latest.json"
    link.symlink_to("run-1.json")
    harness("run", "p", "s.py", "--json", str(link))
    assert link.is_symlink()
    Report.model_validate_json((tmp_path / "run-1.json").read_text())


def test_a_pipe_can_take_the_json(engine, harness, tmp_path: Path):
    engine(cli_fakes.accepted())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    harness("run", "p", "s.py", "--json", str(pipe))
    reader.join(timeout=60)
    assert Report.model_validate_json(got[0]) == cli_fakes.accepted()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("target", ["no-such-folder/report.json", "."])
def test_an_impossible_json_file_is_found_before_grading(engine, harness, tmp_path: Path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    fake = engine(cli_fakes.accepted())
    code, out, err = harness("run", "p", "s.py", "--json", target)
    assert code == 2
    assert out == ""
    assert_one_sentence(err)
    assert fake.calls == []


@pytest.mark.parametrize(
    "error",
    [
        ProblemError("There is no problem at 'nope'; give a folder or a .py file."),
        DeviceError("There is no device 'gpu': write auto, cpu, cuda, or cuda:N with N from 0."),
        SandboxError("bubblewrap can't be used here: user namespaces are off; choose --sandbox plain."),
        SubmissionError("submission.not_found", "The submission nope.py does not exist; check the path."),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json", "-")])
def test_wrong_use_is_one_sentence_and_exit_code_2(engine, harness, error, options):
    engine(error)
    code, out, err = harness("run", "p", "s.py", *options)
    assert code == 2
    assert out == ""
    assert_one_sentence(err.replace(NOISE, ""))
    assert str(error) in err


@pytest.mark.parametrize("error", [ValueError("a bug [bold]"), MemoryError(), RecursionError("deep")])
def test_our_own_failure_is_exit_code_3_with_the_traceback_on_stderr(engine, harness, error):
    engine(error)
    code, out, err = harness("run", "p", "s.py", "--json", "-")
    assert code == 3
    assert out == ""
    assert "Traceback" in err
    last = err.strip().splitlines()[-1]
    assert type(error).__name__ in last
    assert "not the submission's fault" in last


def test_ctrl_c_says_interrupted_and_exits_130(engine, harness):
    engine(KeyboardInterrupt())
    code, out, err = harness("run", "p", "s.py", "--json", "-")
    assert (code, out) == (130, "")
    assert err.endswith("harness: interrupted\n")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("run",),
        ("run", "p"),
        ("run", "p", "s", "--seed", "-1"),
        ("run", "p", "s", "--seed", "x"),
        ("run", "p", "s", "--seed", str(2**128)),
        ("run", "p", "s", "--nope"),
        ("nope",),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_without_a_traceback(engine, harness, argv):
    fake = engine(cli_fakes.accepted())
    code, _, err = harness(*argv)
    assert code == 2
    assert "Traceback" not in err
    assert fake.calls == []


def test_without_a_terminal_progress_is_plain_lines(engine, harness):
    engine(cli_fakes.accepted(), *STAGES)
    _, _, err = harness("run", "p", "s.py")
    lines = err.replace(NOISE, "").splitlines()
    assert lines == ["check      2.4 s  trial 1 of 5 of s6"]
    assert not any(CONTROL.search(line) for line in lines)


def assert_one_sentence(err: str) -> None:
    """One line, ours, that ends like a sentence."""
    assert re.fullmatch(r"harness: [^\n]*\.\n", err), err
