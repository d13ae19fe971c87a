"""Whatever a problem's or a solution's file holds, it loads or is refused with a sentence; nothing else."""

from __future__ import annotations

import contextlib
import json
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from format_samples import (
    CPP,
    CUSTOM,
    HELPER,
    NORM,
    TASK,
    WRITES,
    definition,
    flashinfer,
    gpumode,
    sol,
    solution,
    workload,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.batch.inputs import Entry, read_submissions
from harness.batch.problems import ProblemIndex, find_problems
from harness.formats.solutions import program_of
from harness.load.problem import Problem, ProblemError
from harness.load.program import Calling
from harness.load.submission import Submission, SubmissionError

CALLING = Calling("run", "function", ("x", "weight", "eps"), ("y", "rstd"), solutions=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def refused(path: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        Problem.load(path)
    return str(caught.value)


def plain(load: Callable[[], object]) -> bool:
    """Whether it works, or says in one line what is wrong."""
    said = ""
    try:
        load()
    except (ProblemError, SubmissionError) as error:
        said = str(error)
    return "Traceback" not in said and "\n" not in said and len(said) < 1500


@given(st.text(max_size=200) | VALUES.map(json.dumps) | st.text(max_size=40).map(lambda more: TASK + more))
@settings(max_examples=150, deadline=None)
def test_any_task_yml_loads_or_is_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem = gpumode(Path(folder))
        (problem / "task.yml").write_bytes(text.encode("utf-8", "surrogatepass"))
        assert plain(lambda: Problem.load(problem).graded(None, "cpu"))


@given(st.sampled_from(["files", "tests", "benchmarks", "lang", "ranking_by", "description", "multi_gpu"]), VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_of_a_key_of_task_yml(key: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem = gpumode(Path(folder), task_yml=f"{TASK}\n{json.dumps({key: value})[1:-1]}\n")
        with contextlib.suppress(ProblemError):
            Problem.load(problem)


@given(st.sampled_from(sorted(definition())), VALUES)
@settings(max_examples=200, deadline=None)
def test_any_value_of_a_key_of_a_definition(key: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem = sol(Path(folder) / "p", **{key: value})
        assert plain(lambda: Problem.load(problem))


@given(st.sampled_from(sorted(workload("a", 1))) | st.text(max_size=5), VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_of_a_key_of_a_workload(key: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem = sol(Path(folder) / "p", {**workload("a", 1), key: value})
        assert plain(lambda: Problem.load(problem))


@given(st.text(max_size=100).map("{".__add__) | VALUES.map(json.dumps))
@settings(max_examples=150, deadline=None)
def test_any_solution_is_read_or_refused(text: str) -> None:
    assert plain(lambda: program_of(text, "s.json", CALLING))


@given(st.sampled_from(["name", "definition", "spec", "sources"]), VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_of_a_key_of_a_solution(key: str, value: Any) -> None:
    document = json.loads(solution({"main.py": NORM}))
    with contextlib.suppress(SubmissionError):
        program_of(json.dumps({**document, key: value}), "s.json", CALLING)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('lang: "py"', 'lang: "cu"'), "only tasks in Python"),
        (('ranking_by: "geom"', 'ranking_by: "best"'), "ranking_by"),
        (("tests:", "tests: &a"), None),
        (("milestones: []", "milestones: &a [1]\nmore: *a"), "alias"),
        (('"source": "task.py"', '"source": "/etc/passwd"'), "relative"),
        (('"source": "../shared_utils.py"', '"source": "gone.py"'), "cannot be read"),
        (("ranked_timeout: 180", "multi_gpu: true"), "several GPUs"),
        (('"seed": 21}', '"seed": {"a": 1}}'), "benchmarks.0.seed"),
    ],
)
def test_what_is_wrong_with_a_task_is_told(tmp_path: Path, change: tuple[str, str], says: str | None) -> None:
    problem = gpumode(tmp_path, task_yml=TASK.replace(*change))
    if says is None:
        Problem.load(problem)
    else:
        assert says in refused(problem)


def test_a_task_ranks_by_its_last_benchmark_unless_it_says_otherwise(tmp_path: Path) -> None:
    problem = Problem.load(gpumode(tmp_path, task_yml=TASK.replace('ranking_by: "geom"', "")))
    assert [each.name for each in problem.graded(None, "cuda")] == ["benchmark-1"]
    assert [each.name for each in problem.checking_workloads("cuda")] == ["benchmark-0", "test-0"]
    assert any("ranking_by is last" in note for note in problem.notes)
    mean = Problem.load(gpumode(tmp_path, task_yml=TASK.replace('"geom"', '"mean"')))
    assert mean.spec.ranking.by == "mean"


def test_a_version_counts_every_file(tmp_path: Path) -> None:
    one = Problem.load(gpumode(tmp_path / "a")).version
    assert Problem.load(gpumode(tmp_path / "b")).version == one
    assert Problem.load(gpumode(tmp_path / "c", utils="def near(*_, **__):\n    return None\n")).version != one


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"op_type": "sampling"}, "not supported"),
        ({"outputs": {"y": {"shape": ["rows"], "dtype": "float16"}}}, "the axis 'rows' is not among axes"),
        ({"outputs": {"y": {"shape": ["batch"], "dtype": "float4_e2m1"}}}, "can't be graded"),
        ({"reference": "def run(x):\n  return (x"}, "line 2"),
        ({"reference": "def forward(x):\n  return x"}, "does not define run"),
        ({"axes": {"batch": {"type": "var"}, "hidden": {"type": "const"}}}, "has no value"),
        ({"axes": {"batch": {"type": "var"}, "hidden": {"type": "expr", "expression": "batch / 2"}}}, "whole number"),
        ({"custom_inputs_entrypoint": "make"}, "does not define make"),
    ],
)
def test_what_is_wrong_with_a_definition_is_told(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    assert says in refused(sol(tmp_path / "p", **changes))


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (workload("a", 1, axes={}), "no value for the axis 'batch'"),
        (workload("a", 1, inputs={"x": {"type": "random"}}), "says nothing of weight, eps"),
        (workload("a", -1), "axes.batch"),
        (workload("a", 1 << 47), "10^12"),
    ],
)
def test_what_is_wrong_with_a_workload_is_told(tmp_path: Path, load: dict[str, Any], says: str) -> None:
    assert says in refused(sol(tmp_path / "p", load))


def test_a_data_set_is_found_as_a_whole(tmp_path: Path) -> None:
    flashinfer(tmp_path, workload("a", 1))
    ((place, problem),) = find_problems([tmp_path])
    assert isinstance(problem, Problem)
    assert (place.name, problem.id) == ("rmsnorm_h16.json", "rmsnorm_h16")
    assert pickle.loads(pickle.dumps(problem)).version == problem.version


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"language": "rust"}, "rust"),
        ({"entry_point": "main.py"}, "FILE::FUNCTION"),
        ({"entry_point": "main.py::import"}, "FILE::FUNCTION"),
        ({"entry_point": "other.py::run"}, "none of its sources"),
        ({"entry_point": "main.py::go"}, "defines no go"),
        ({"language": "cuda", "binding": "tvm-ffi"}, "bind with torch"),
        ({"language": "cuda"}, "no C++ or CUDA file"),
    ],
)
def test_what_is_wrong_with_a_solution_is_told(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(SubmissionError, match=says.replace("+", r"\+")):
        program_of(solution({"main.py": NORM}, **spec), "s.json", CALLING)


@pytest.mark.parametrize("path", ["/etc/x.py", "../x.py", "a/../../x.py", "", "a//b.py", ".hidden/x.py", "a\0b.py"])
def test_a_solution_writes_nowhere_else(path: str) -> None:
    with pytest.raises(SubmissionError):
        program_of(solution({"main.py": NORM, path: HELPER}), "s.json", CALLING)


def test_how_a_submission_is_called() -> None:
    made = program_of(solution({"main.py": WRITES, "helper.py": HELPER}), "s.json", CALLING)
    assert (made.source, made.filename, dict(made.files)) == (WRITES, "main.py", {"helper.py": HELPER})
    assert made.calling.style == "destination"
    returns = solution({"main.py": NORM}, destination_passing_style=False)
    assert program_of(returns, "s.json", CALLING).calling.style == "function"
    assert Submission.from_source(NORM, "a.py", CALLING).program.calling.style == "function"
    assert Submission.from_source(WRITES, "a.py", CALLING).program.calling.style == "destination"
    built = program_of(solution({"k.cpp": CPP}, language="cpp", entry_point="k.cpp::norm"), "s.json", CALLING)
    assert built.calling.entry == "norm"
    assert "norm = _module.norm" in built.source


def test_submissions_of_a_batch_name_their_problem(tmp_path: Path) -> None:
    problems = [Problem.load(gpumode(tmp_path)), Problem.load(sol(tmp_path / "rmsnorm_h16"))]
    answers = tmp_path / "answers"
    answers.mkdir()
    (answers / "one.py").write_text(CUSTOM)
    (answers / "two.json").write_text(solution({"main.py": NORM}))
    found = list(read_submissions([answers], ProblemIndex(problems)))
    assert [each.problem.name for each in found if isinstance(each, Entry)] == ["sums", "rmsnorm_h16"]
