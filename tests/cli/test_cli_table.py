"""The terminal table: what it shows for each verdict, that it fits, and that nothing in it can paint the screen."""

from __future__ import annotations

import io
import re

import cli_fakes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from harness.build.diagnostics import Diagnostic
from harness.cli.table import print_report
from harness.report import (
    BuildInfo,
    Correctness,
    ExtensionInfo,
    ProblemInfo,
    Report,
    SubmissionInfo,
    Verdict,
    Warning_,
)

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b[2J\x1b[1;32m\x1b]0;t\x07[bold green]ACCEPTED[/bold green] :rocket: [/]\r\x08\u202egnp \ud800\n" * 3


def shown(report: Report, width: int = 80, encoding: str = "utf-8") -> str:
    """The table as a terminal of that width and encoding gets it, without colours."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    print_report(report, Console(file=stream, width=width, markup=False, emoji=False, highlight=False))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


def unframed(table: str) -> str:
    """Its words, joined over line ends."""
    return " ".join(line.strip("│╭╮╰╯─ ") for line in table.splitlines())


EVERY = [cli_fakes.accepted(), cli_fakes.compile_error(), cli_fakes.wrong_answer(), cli_fakes.runtime_error()]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("report", EVERY, ids=lambda report: report.verdict)
def test_it_fits_the_terminal(report, width):
    assert {len(line) for line in shown(report, width).splitlines()} == {width}


@pytest.mark.parametrize("report", EVERY, ids=lambda report: report.verdict)
def test_the_verdict_comes_first_and_then_the_reason(report):
    lines = [line.strip("│ ") for line in shown(report, 200).splitlines()]
    assert lines[1].startswith(report.verdict.upper().replace("_", " "))
    assert lines[2] == report.reason.message


@pytest.mark.parametrize("report", EVERY, ids=lambda report: report.verdict)
def test_an_ascii_terminal_gets_ascii(report):
    assert shown(report, encoding="ascii").isascii()


def test_an_accepted_submission_shows_its_figures():
    words = unframed(shown(cli_fakes.accepted()))
    for expected in (
        "957.1 µs 95 % in 956.0 µs to 958.3 µs",
        "140.213 ms",
        "146.50x",
        "200 samples",
        "5 of 5 compared, weights transferred",
        "build.spills",
        "20 B spilled",
        "--seed 73141592653589793238462643383279502884 --workload default --device cuda:0",
    ):
        assert expected in re.sub(r" +", " ", words)


def test_the_floor_is_shown_where_there_is_one():
    report = cli_fakes.accepted()
    assert report.timing is not None
    assert " floor " not in unframed(shown(report))
    timing = report.timing.model_copy(
        update={"floor": cli_fakes.FLOOR, "floor_us": cli_fakes.FLOOR.us, "fraction_of_floor": 0.8716}
    )
    words = re.sub(r" +", " ", unframed(shown(report.model_copy(update={"timing": timing}), 160)))
    assert "floor 31.70 µs 87 % of it reached, bound by special functions (projections as three fp16 products)" in words


def test_a_compile_error_shows_place_message_and_hint():
    words = unframed(shown(cli_fakes.compile_error(), 120))
    assert 'cuda_sources:12: the parameter "D" has already been declared' in words
    assert "call the size d_model" in words
    assert "main.cpp:4:22: 's6_forward' was not declared in this scope" in words
    assert "[bold]n[/bold]" in words


def test_a_wrong_answer_shows_the_wrong_leaf_before_the_right_one():
    words = unframed(shown(cli_fakes.wrong_answer()))
    assert words.index("output[1] float32") < words.index("output[0] float32")
    assert "1,234,567 elements (14.72 %) outside the tolerance" in words
    assert "worst at [3, 100, 17], trial 2: got nan, expected 0.0921234567" in words


def test_evidence_that_is_a_leaf_is_shown_as_one_and_only_once():
    leaf = cli_fakes.leaf("inputs[0]", ok=False, outside=3, worst_trial=1)
    report = cli_fakes.report(Verdict.REJECTED, "input.mutated", "forward changed it.", leaf.model_dump(mode="json"))
    assert "inputs[0] float32 [16, 2048, 256]" in unframed(shown(report))
    assert "evidence" not in shown(report)
    known = Correctness(trials=1, trials_asked=5, weights="none", leaves=[leaf])
    assert shown(report.model_copy(update={"correctness": known})).count("inputs[0]") == 1


def test_a_runtime_error_shows_the_traceback_and_what_was_printed():
    words = unframed(shown(cli_fakes.runtime_error()))
    assert 'File "s6_v2.py", line 61, in forward' in words
    assert "limit_bytes 49152" in words
    assert "printed warming up ACCEPTED [bold]1000x[/bold]" in re.sub(r" +", " ", words)


DUMP = """hello
Fatal Python error: Segmentation fault

Current thread 0x00007f8018c83b80 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/tmp/submission-fw04a_4a/mine.py", line 6 in forward
  File "/opt/grader/harness/worker/runner.py", line 207 in call

Extension modules: torch._C, torch._C._fft (total: 2)
goodbye
"""


def test_of_a_dump_after_a_signal_the_lines_of_the_submission_are_shown():
    words = unframed(shown(cli_fakes.report(Verdict.RUNTIME_ERROR, "run.signal", "SIGSEGV.", log=DUMP), 120))
    for kept in ("hello", "Fatal Python error: Segmentation fault", "mine.py", "line 6 in forward", "goodbye"):
        assert kept in words
    for dropped in ("string_at", "runner.py", "Extension modules"):
        assert dropped not in words


def test_what_has_no_value_and_what_was_not_built_has_no_row():
    nothing = ExtensionInfo(name="", key="", cached=False, seconds=0.0, recipe="none")
    evidence = {"error": "", "traceback": "\n", "signal": None, "phase": "call"}
    table = shown(
        cli_fakes.report(
            Verdict.RUNTIME_ERROR, "run.died", "It died.", evidence, build=BuildInfo(extensions=[nothing]), stages=[]
        )
    )
    assert "phase call" in table
    assert not re.search("error |traceback|signal|build", table)


def test_of_a_submission_that_needs_cuda_the_traceback_is_left_out():
    evidence = {"error": "RuntimeError", "traceback": "first\nsecond\n"}
    assert "second" not in shown(cli_fakes.report(Verdict.RUNTIME_ERROR, "run.needs_cuda", "It needs CUDA.", evidence))
    assert "second" in shown(cli_fakes.report(Verdict.RUNTIME_ERROR, "run.exception", "It raised.", evidence))


def test_the_build_says_what_else_is_in_its_time():
    assert "build 18.2 s with the worker's start" in unframed(shown(cli_fakes.accepted()))


def test_further_sizes_that_are_right_are_named():
    good = cli_fakes.accepted()
    assert good.correctness is not None
    checked = good.correctness.model_copy(update={"also_checked": ["odd", "tiny"]})
    assert re.search(r"also right +at: odd, tiny", shown(good.model_copy(update={"correctness": checked})))
    assert "also right" not in shown(good)
    bad = cli_fakes.wrong_answer().model_copy(update={"correctness": checked})
    assert "also right" not in shown(bad)


def hostile_report(text: str) -> Report:
    """A report in which the submission has written whatever it can write."""
    return cli_fakes.report(
        Verdict.RUNTIME_ERROR,
        "forward.raised",
        text,
        {"traceback": text, "error": text.replace("\n", " "), text: [text, {text: 1.0}]},
        problem=ProblemInfo(id=text, version="", workload=text),
        submission=SubmissionInfo(path=text, name=text, sha256=""),
        log=text,
        warnings=[Warning_(code="a.b", message=text)],
        correctness=Correctness(
            trials=1,
            trials_asked=1,
            weights="none",
            leaves=[cli_fakes.leaf(text, ok=False, worst_index=[0], worst_value=text, reading=text)],
        ),
        build=BuildInfo(
            diagnostics=[Diagnostic(file=text, line=1, column=1, severity="error", message=text, hint=text)]
        ),
    )


def test_nothing_a_submission_says_reaches_the_terminal_as_more_than_text():
    table = shown(hostile_report(HOSTILE))
    assert not any(CONTROL.search(line) for line in table.splitlines())
    assert "[bold green]ACCEPTED[/bold green]" in table
    assert ":rocket:" in table


@settings(deadline=None)
@given(st.text(st.characters(codec=None), max_size=300))
def test_any_text_at_all_makes_a_table(text):
    table = shown(hostile_report(text), 60)
    assert not any(CONTROL.search(line) for line in table.split("\n"))


def test_long_lists_are_cut_and_say_so():
    many = cli_fakes.compile_error().build.diagnostics * 20
    report = cli_fakes.report(
        Verdict.COMPILE_ERROR,
        "build.failed",
        "Nothing compiles.",
        {f"value_{index}": index for index in range(100)},
        build=BuildInfo(diagnostics=many),
        log="line\n" * 100_000,
        correctness=Correctness(
            trials=1, trials_asked=1, weights="none", leaves=[cli_fakes.leaf(f"output[{i}]") for i in range(100)]
        ),
    )
    table = shown(report)
    assert len(table.splitlines()) < 100
    assert "more messages, in --json" in table
    assert "more leaves, in --json" in table
    assert "more in --json" in table
    assert "lines not shown" in table
