"""What was typed in the place of PROBLEM, SUBMISSION, --arch and the like, and what is said of it before grading."""

from __future__ import annotations

from pathlib import Path

import cli_fakes
import pytest

from harness.build.cache import BuildCache
from harness.cli.grading import Sandbox
from harness.sandbox import SANDBOXES

MODEL = "class Model: ...\n"
MODEL_NEW = "class ModelNew: ...\n"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one problem, a KernelBench file and a submission."""
    problem = tmp_path / "problems" / "selective_scan"
    problem.mkdir(parents=True)
    (problem / "problem.toml").touch()
    (tmp_path / "bench.py").write_text(MODEL)
    (tmp_path / "mine.py").write_text(MODEL_NEW)
    (tmp_path / "both.py").write_text(MODEL + MODEL_NEW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("problem", "submission", "said"),
    [
        ("mine.py", "problems/selective_scan", "seem swapped"),
        ("mine.py", "bench.py", "seem swapped"),
        ("bench.py", "problems/selective_scan", "seem swapped"),
        ("problems/selective_scan", "problems", "name the .py file"),
        ("selectiv_scan", "mine.py", "problems/selective_scan was probably meant"),
        ("problems/selectiv_scan", "mine.py", "problems/selective_scan was probably meant"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check", "compile"])
def test_a_slip_is_said_before_anything_is_graded(engine, harness, places, command, problem, submission, said):
    fake = engine(cli_fakes.accepted())
    code, out, err = harness(command, problem, submission)
    assert (code, out, fake.calls) == (2, "", [])
    assert err.startswith("harness: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("command", ["run", "check", "compile"])
def test_of_a_problem_in_problems_the_name_is_enough(engine, harness, places, command):
    fake = engine(cli_fakes.accepted())
    assert harness(command, "selective_scan", "mine.py")[0] == 0
    (call,) = fake.calls
    assert str(call["problem"]) == "problems/selective_scan"


@pytest.mark.parametrize("argv", [["new", "submission", "problems/selectiv_scan", "f.py"], ["verify", "selectiv_scan"]])
def test_other_commands_say_which_problem_was_meant(harness, places, argv):
    code, out, err = harness(*argv)
    assert (code, out) == (2, "")
    assert "problems/selective_scan was probably meant" in err


@pytest.mark.parametrize("problem", ["problems/selective_scan", "bench.py", "both.py", "nothing_like_it"])
def test_what_may_be_right_goes_to_the_engine(engine, harness, places, problem):
    fake = engine(cli_fakes.accepted())
    assert harness("check", problem, "mine.py")[0] == 0
    assert fake.calls[0]["problem"] == problem


@pytest.mark.parametrize(
    ("arch", "said"),
    [("90a", "as 9.0a."), ("sm_90", "as 9.0."), ("100", "as 10.0."), ("hopper", "9.0 or 9.0a")],
)
def test_an_architecture_that_is_refused_says_how_to_write_it(engine, harness, arch, said):
    engine(cli_fakes.accepted())
    code, _, err = harness("compile", "p", "s.py", "--arch", arch)
    assert code == 2
    assert said in err


def test_the_help_names_the_sandboxes_and_has_no_number_of_39_digits(harness):
    assert Sandbox.__metadata__[0].metavar == "|".join(SANDBOXES)  # type: ignore[attr-defined]
    _, out, _ = harness("run", "--help")
    assert str(2**128 - 1)[:10] not in out


@pytest.mark.parametrize("options", [(), ("--max-size", "2G", "--all"), ("--max-size", "much")])
def test_the_cache_is_not_emptied_unasked(harness, monkeypatch, tmp_path, options):
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(BuildCache, "prune", lambda *_, **__: pytest.fail("pruned"))
    code, out, err = harness("cache", "prune", *options)
    assert (code, out) == (2, "")
    assert err.startswith("harness: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("options", [("--all",), ("--max-size", "2G")])
def test_the_cache_is_pruned_when_asked(harness, monkeypatch, tmp_path, options):
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    code, out, _ = harness("cache", "prune", *options)
    assert (code, out) == (0, "removed 0 builds, 0\n")
