"""The command line as a process of its own: signals, pipes, and what it imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = """
import subprocess, sys, time, types

def grade(problem, submission, **options):
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        print("started", child.pid, flush=True)
        while True:  # as a grader waits for a worker: a signal that comes just before a wait is seen after it
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
        {slow_cleanup}
        print("cleaned up", flush=True)

module = types.ModuleType("harness.grading.grader")
module.grade = grade
sys.modules["harness.grading.grader"] = module

from harness.cli.main import main
sys.exit(main())
"""


def start(code: str, *argv: str) -> subprocess.Popen[str]:
    """A Python process in the checkout, its stdout and stderr as pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Its own group, and signals as a shell's foreground job has them, whatever runs these tests.
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_lets_the_grading_clean_up_and_has_its_exit_code(number, code):
    process = start(ENGINE.format(slow_cleanup="pass"), "run", "p", "s.py", "--json", "-")
    child = wait_for_start(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code
    assert out == ""
    assert err == "cleaned up\nharness: interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_second_signal_does_not_cut_the_cleaning_up_short():
    process = start(ENGINE.format(slow_cleanup='print("cleaning", flush=True); time.sleep(2)'), "run", "p", "s.py")
    wait_for_start(process)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert process.stderr.readline() == "cleaning\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "cleaned up" in err
    assert "once more to leave at once" in err


def wait_for_start(process: subprocess.Popen[str]) -> int:
    """Until the engine is at work; the pid of the child that it started."""
    assert process.stderr is not None
    word, pid = process.stderr.readline().split()
    assert word == "started"
    return int(pid)


def test_help_and_problems_import_neither_torch_nor_the_grader():
    code = """
import json, sys
from harness.cli.main import main
main(["--help"])
after_help = [name for name in ("torch", "pydantic", "harness.grading.grader") if name in sys.modules]
main(["problems"])
print("JSON", json.dumps([after_help, "torch" in sys.modules]))
"""
    process = start(code)
    out, err = process.communicate(timeout=120)
    last = out.strip().splitlines()[-1]
    assert last.startswith("JSON "), err
    assert json.loads(last.removeprefix("JSON ")) == [[], False]


def test_a_command_reads_no_other_one_and_no_other_format():
    code = """
import json, sys
from harness.cli.main import main
main(["problems"])
others = ("harness.cli.batch", "harness.cli.server", "harness.report", "asyncio", "yaml", "harness.formats.flashinfer")
print("JSON", json.dumps([name for name in others if name in sys.modules]))
"""
    out, err = start(code).communicate(timeout=120)
    last = out.strip().splitlines()[-1]
    assert last == "JSON []", err


def test_workers_are_started_before_the_models_of_a_report_are_there():
    code = """
import sys
import harness.workers.prepared, harness.machine.place, harness.load.problem, harness.formats
print(*(name for name in ("torch", "harness.report") if name in sys.modules))
"""
    out, err = start(code).communicate(timeout=120)
    assert out == "\n", err


def test_a_reader_that_leaves_early_gets_no_traceback():
    process = start("import sys; from harness.cli.main import main; sys.exit(main(['schema']))")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.wait(timeout=120)
    process.stderr.close()
    assert err == ""
    assert process.returncode == 141
