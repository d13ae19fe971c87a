"""Problems as text: what loads, what is refused, and that every refusal is a sentence with a place and a remedy."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.load.problem import Problem, ProblemError
from harness.load.spec import ProblemSpec, parse_spec

ROOT = Path(__file__).resolve().parents[2]

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs(B=2, L=3):
    return [torch.zeros(B, L)]


def get_init_inputs():
    return []
"""


def write(folder: Path, toml: str | bytes = "", reference: str | bytes | None = REFERENCE) -> Path:
    """A problem folder with these two files; None leaves reference.py out."""
    folder.mkdir(exist_ok=True)
    (folder / "problem.toml").write_bytes(toml.encode() if isinstance(toml, str) else toml)
    if reference is not None:
        (folder / "reference.py").write_bytes(reference.encode() if isinstance(reference, str) else reference)
    return folder


def error_of(path: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        Problem.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


# --- what loads ---


@pytest.mark.parametrize("name", ["linear_recurrence", "selective_scan", "gemm_bn_scale_softmax"])
def test_the_three_problems_have_a_workload_for_each_device_and_some_for_checking(name: str) -> None:
    problem = Problem.load(ROOT / "problems" / name)
    assert problem.id == name
    assert problem.statement is not None
    assert problem.workload(None, "cuda").name == "default"
    assert problem.workload(None, "cpu").name == "cpu"
    assert {"odd", "tiny"} <= {workload.name for workload in problem.checking_workloads("cuda")}
    assert all(not workload.timed for workload in problem.checking_workloads("cpu"))
    for workload_name in problem.spec.workloads:
        assert problem.floor_ways(problem.workload(workload_name, "cuda"))


def test_the_default_sizes_are_the_statement_s() -> None:
    recurrence = Problem.load(ROOT / "problems/linear_recurrence")
    assert recurrence.workload(None, "cuda").sizes == {"B": 32, "L": 4096, "D": 256}
    (way,) = recurrence.floor_ways(recurrence.workload(None, "cuda"))
    assert way.work == {"bytes": 402653184.0, "fp32_flops": 67108864.0}
    gemm = Problem.load(ROOT / "problems/gemm_bn_scale_softmax")
    ways = {way.name: way.work for way in gemm.floor_ways(gemm.workload(None, "cuda"))}
    assert ways["product in fp32"]["fp32_flops"] == pytest.approx(137.4e9, rel=1e-3)
    assert ways["three tf32 products"]["tf32_flops"] == 3 * ways["product in fp32"]["fp32_flops"]
    scan = Problem.load(ROOT / "problems/selective_scan")
    assert scan.workload(None, "cuda").sizes == {"B": 16, "L": 2048, "d_model": 256, "d_state": 16}


def test_an_empty_problem_toml_gives_one_default_workload(tmp_path: Path) -> None:
    problem = Problem.load(write(tmp_path / "p"))
    workload = problem.workload(None, "cpu")
    assert (workload.name, workload.args, workload.sizes) == ("default", {}, {"B": 2, "L": 3})
    assert problem.floor_ways(workload) == ()


def test_a_kernelbench_file_loads_with_defaults(tmp_path: Path) -> None:
    path = tmp_path / "1_Square matrix.py"
    path.write_text(REFERENCE)
    problem = Problem.load(path)
    assert problem.id == "1_Square_matrix"
    assert problem.statement is None
    assert problem.spec == ProblemSpec()


def test_a_workload_s_arguments_reach_only_the_function_that_takes_them(tmp_path: Path) -> None:
    reference = REFERENCE.replace("def get_init_inputs():", "def get_init_inputs(width=5, shape=(1,)):").replace(
        "return []", "return [width, shape]"
    )
    toml = "[workloads.default]\nargs = { B = 4, width = 7, shape = [2, 3] }"
    problem = Problem.load(write(tmp_path / "p", toml, reference))
    module = problem.module(problem.workload(None, "cpu"))
    assert tuple(module.get_inputs()[0].shape) == (4, 3)
    assert module.get_init_inputs() == [7, [2, 3]]


def test_each_module_is_fresh(tmp_path: Path) -> None:
    reference = REFERENCE.replace("def get_inputs", "calls = []\n\n\ndef get_inputs").replace(
        "return [torch.zeros(B, L)]", "calls.append(1)\n    return [len(calls)]"
    )
    problem = Problem.load(write(tmp_path / "p", "", reference))
    workload = problem.workload(None, "cpu")
    first = problem.module(workload)
    assert first.get_inputs() == [1]
    assert first.get_inputs() == [2]
    assert problem.module(workload).get_inputs() == [1]


def test_defaults_that_are_module_constants_count_as_sizes(tmp_path: Path) -> None:
    reference = REFERENCE.replace("def get_inputs(B=2", "rows = 11\n\n\ndef get_inputs(B=rows")
    problem = Problem.load(write(tmp_path / "p", '[floor]\nbytes = "B * L * 8"', reference))
    assert problem.floor_ways(problem.workload(None, "cpu"))[0].work == {"bytes": 264.0}


def test_loading_does_not_import_torch() -> None:
    code = (
        "import sys; from harness.load.problem import Problem; from harness.load.submission import Submission; "
        "Problem.load('problems/selective_scan'); Submission.load('submissions/s6_v2.py'); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


# --- the version ---


def version(folder: Path, toml: str = "", reference: str = REFERENCE) -> str:
    return Problem.load(write(folder, toml, reference)).version


def test_the_version_ignores_what_cannot_change_a_grading(tmp_path: Path) -> None:
    first = version(tmp_path / "a", 'title = "A"\n[limits]\ncall_s = 5')
    assert version(tmp_path / "b", "# a comment\r\nlimits = { call_s = 5.0 }") == first
    assert version(tmp_path / "c", "[limits]\ncall_s = 5", REFERENCE.replace("\n", "\r\n")) == first


def test_the_version_changes_with_what_is_graded(tmp_path: Path) -> None:
    versions = {
        version(tmp_path / "a"),
        version(tmp_path / "b", "[limits]\ncall_s = 5"),
        version(tmp_path / "c", "[tolerance]\natol = 1e-3"),
        version(tmp_path / "d", "", REFERENCE.replace("x + 1", "x + 2")),
    }
    assert len(versions) == 4


# --- what is refused ---


def test_a_missing_path(tmp_path: Path) -> None:
    assert "There is no problem at" in error_of(tmp_path / "absent")


def test_a_folder_without_problem_toml(tmp_path: Path) -> None:
    assert "has no problem.toml" in error_of(tmp_path)


def test_a_folder_without_reference(tmp_path: Path) -> None:
    assert "has no reference.py" in error_of(write(tmp_path / "p", reference=None))


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    path = tmp_path / "problem.txt"
    path.write_text("x")
    assert "neither a folder nor a .py file" in error_of(path)


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("titel = 'x'", "line 1: there is no key 'titel' at the top level; did you mean 'title'?"),
        ("[workloads.big]\ntrails = 3", "line 2: there is no key 'trails' in [workloads.big]; did you mean 'trials'?"),
        ("[tolerance.dtype.float16]\natoll = 1", "no key 'atoll' in [tolerance.dtype.float16]; did you mean 'atol'?"),
        ("[policy]\nzzz = 1", "the keys there are: in_place, alias_outputs, own_kernel_share."),
        ("[workloads.default]\ntrials = '3'", "'trials' in [workloads.default] is '3', which does not fit"),
        ("[tolerance]\natol = -1", "'atol' in [tolerance] is -1"),
        ("[tolerance]\natol = nan", "'atol' in [tolerance] is nan"),
        ("[limits]\ncall_s = 0", "'call_s' in [limits] is 0"),
        ("workloads = 3", "'workloads' at the top level is 3"),
        ("precision = 'fp31'", "'precision' at the top level is 'fp31'"),
        ("title =", "is not TOML that can be read"),
        ("[default_workload]\ncuda = 'x'", "[default_workload] cuda is 'x', but the workloads are: default"),
        ("[baselines.x]\ndevice = 'd'\nmedian_us = 1\nworkload = 'w'", "[baselines.x] is about the workload 'w'"),
        ("[workloads.'a b']", "the workload name 'a b' is not usable"),
        ("[baselines.x]\ndevice = 'd'", "the key 'median_us' in [baselines.x] is missing"),
        ("[workloads.default]\nargs = { B = 1979-05-27 }", "an argument is a number, a bool, a string, or a list"),
        ("[workloads.default]\nargs = { M = 1 }", "neither get_inputs nor get_init_inputs"),
        ("[floor]\nbytes = '4 * Q'", "the expression '4 * Q' names 'Q', but the sizes are: B, L"),
        ("[floor]\nbytes = 'B.real'", "'bytes' in [floor] cannot be used: the expression 'B.real' has 'B.real'"),
        ("[floor]\nbytes = '4 / (B - 2)'", "divides by zero"),
    ],
)
def test_a_mistake_in_problem_toml_is_named_with_its_place(tmp_path: Path, toml: str, expected: str) -> None:
    assert expected in error_of(write(tmp_path / "p", toml))


def test_a_problem_toml_that_is_not_utf8(tmp_path: Path) -> None:
    assert "is not UTF-8 (byte 3)" in error_of(write(tmp_path / "p", b"a='\xff'"))


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (b"x = '\xff'", "is not UTF-8"),
        (b"def f(:", "line 1: invalid syntax"),
        (b"\x00", "null bytes"),
        (REFERENCE.replace("class Model", "class Modle"), "does not define Model;"),
        (REFERENCE.replace("def get_inputs", "def inputs"), "does not define get_inputs;"),
        (REFERENCE.replace("def get_init_inputs", "def init"), "does not define get_init_inputs;"),
        (REFERENCE.replace("B=2, L=3", "B, L=3"), "get_inputs needs B"),
        (REFERENCE.replace("inputs():", "inputs(B=9):"), "different defaults for 'B' (2 and 9)"),
    ],
)
def test_a_broken_reference_is_refused_before_it_runs(tmp_path: Path, reference: str | bytes, expected: str) -> None:
    assert expected in error_of(write(tmp_path / "p", "", reference))


def test_an_unknown_workload_names_those_that_exist(tmp_path: Path) -> None:
    problem = Problem.load(write(tmp_path / "p", "[workloads.default]\n[workloads.big]"))
    with pytest.raises(ProblemError, match="no workload 'small'; it has: default, big"):
        problem.workload("small", "cpu")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (REFERENCE + "\nraise KeyError('oops')\n", r"reference.py, line 17: reference.py itself raised KeyError"),
        (REFERENCE + "\nimport sys\nsys.exit(0)\n", r"reference.py, line 18: reference.py itself raised SystemExit"),
        (REFERENCE + "\ndel Model\n", "leaves Model undefined"),
        (REFERENCE.replace("torch.zeros(B, L)", "torch.zeros(B, -L)"), "line 11: get_inputs raised RuntimeError"),
        (REFERENCE.replace("[torch.zeros(B, L)]", "torch.zeros(B, L)"), "get_inputs returned Tensor; it must return"),
    ],
)
def test_what_the_author_s_code_raises_is_the_problem_s_fault(tmp_path: Path, reference: str, expected: str) -> None:
    problem = Problem.load(write(tmp_path / "p", "", reference))
    with pytest.raises(ProblemError, match=expected):
        problem.module(problem.workload(None, "cpu")).get_inputs()


def test_blaming_names_the_line_of_the_model_too(tmp_path: Path) -> None:
    problem = Problem.load(write(tmp_path / "p", "", REFERENCE.replace("x + 1", "x + 1 / 0")))
    module = problem.module(problem.workload(None, "cpu"))
    model = module.Model()
    with (
        pytest.raises(ProblemError, match=r"line 7: Model.forward raised ZeroDivisionError"),
        module.blaming("Model.forward"),
    ):
        model(*module.get_inputs())


# --- tolerances ---


def test_the_tolerance_of_a_dtype_comes_from_its_table_then_the_problem_then_nowhere() -> None:
    text = "[tolerance]\natol = 1e-4\n[tolerance.dtype.float16]\natol = 1e-2\n[tolerance.dtype.int32]\natol = 1.0"
    tolerance = parse_spec(text, "t").tolerance
    assert tolerance.for_dtype("torch.float16").atol == 1e-2
    assert tolerance.for_dtype("float32").atol == 1e-4
    assert tolerance.for_dtype("float32").rtol is None
    assert tolerance.for_dtype("int64").atol is None, "integers stay exact unless a table names them"
    assert tolerance.for_dtype("int32").atol == 1.0


# --- whatever bytes come ---

TOML_WORDS = """title workloads floor args bytes policy default = [ ] [[ ]] . { } " ' B 1 -1.5 true nan 1979-05-27 ,"""
TOML_PIECES = st.sampled_from([*TOML_WORDS.split(), "\n", " ", "\\u0000", "0xffffffffffffffffff"])


@settings(deadline=None)
@given(
    st.one_of(st.binary(max_size=200), st.lists(TOML_PIECES, max_size=30).map(lambda parts: "".join(parts).encode()))
)
def test_any_problem_toml_is_a_problem_or_a_problem_error(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), data)
        with contextlib.suppress(ProblemError):
            problem = Problem.load(path)
            assert problem.workload(None, "cpu").name in problem.spec.workloads


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_reference_is_a_problem_or_a_problem_error(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "", data)
        with contextlib.suppress(ProblemError):
            Problem.load(path)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.sampled_from(list(ProblemSpec.model_fields)), VALUES)
def test_any_value_of_a_known_key_is_a_spec_or_a_problem_error(key: str, value: object) -> None:
    with contextlib.suppress(ProblemError):
        assert parse_spec(f"{key} = {to_toml(value)}", "problem.toml").workloads


def to_toml(value: object) -> str:
    """Inline TOML; None becomes a missing value, which is a mistake to be reported too."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            escaped = "".join(f"\\U{ord(letter):08x}" for letter in value if not 0xD800 <= ord(letter) < 0xE000)
            return f'"{escaped}"'
        case list():
            return "[" + ", ".join(to_toml(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{to_toml(key)} = {to_toml(item)}" for key, item in value.items()) + "}"
    raise TypeError(type(value))
