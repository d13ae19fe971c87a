"""Submissions and their problems: found, or told why not, whatever is in the files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from batch_fakes import RIGHT, index_of, problem_file
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.batch.inputs import BadInput, Entry, read_submissions
from harness.batch.job import Job, Options
from harness.batch.naming import head_line
from harness.batch.problems import NoProblem, ProblemIndex, find_problems
from harness.load.expected import load_expected
from harness.load.problem import Problem
from harness.load.submission import MAX_BYTES
from harness.scaffold.write import new_submission

ROOT = Path(__file__).resolve().parents[2]


def lines_file(folder: Path, *lines: object) -> Path:
    path = folder / "subs.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_each_way_to_name_a_problem(tmp_path: Path) -> None:
    index = index_of(tmp_path / "p", "softmax", "level1/1_square", "level2/1_gemm")
    (tmp_path / "by_path.py").write_text(f"# a comment\n\n#problem:  softmax \n{RIGHT}")
    path = lines_file(
        tmp_path,
        {"id": "a", "problem": "softmax", "source": RIGHT},
        {"id": "b", "source": f"# problem: 1_gemm.py\n{RIGHT}"},
        {"id": "level_1_problem_1_sample_7", "source": RIGHT},
        {"id": "c", "path": "by_path.py"},
        {"id": "d", "problem": "level1/1_square", "source": f"# problem: softmax\n{RIGHT}"},
    )
    found = list(read_submissions([path], index))
    assert all(isinstance(each, Entry) for each in found), found
    assert [each.problem.name for each in found] == ["softmax", "1_gemm", "1_square", "softmax", "1_square"]
    assert [each.problem.level for each in found] == [None, 2, 1, None, 1]
    assert found[3].path == str(tmp_path / "by_path.py")


def test_a_folder_is_read_with_kernelbench_names(tmp_path: Path) -> None:
    index = index_of(tmp_path / "p", "level1/1_square", "level1/10_mean")
    run = tmp_path / "runs" / "x"
    run.mkdir(parents=True)
    for name in ("level_1_problem_10_sample_0_kernel.py", "level_1_problem_1_sample_0_kernel.py", "other.py"):
        (run / name).write_text(RIGHT)
    (run / ".hidden.py").write_text(RIGHT)
    first, second, third = read_submissions([tmp_path / "runs"], index)
    assert isinstance(first, Entry)
    assert (first.id, first.problem.name) == ("x/level_1_problem_10_sample_0_kernel.py", "10_mean")
    assert isinstance(second, Entry)
    assert second.problem.name == "1_square"
    assert isinstance(third, BadInput)
    assert "can't be told which problem" in third.message


def test_the_samples_say_which_problem_they_answer() -> None:
    index = ProblemIndex([Problem.load(path) for path in sorted((ROOT / "problems").iterdir()) if path.is_dir()])
    expected = load_expected(ROOT / "submissions" / "expected.toml")
    found = list(read_submissions([ROOT / "submissions"], index))
    assert all(isinstance(each, Entry) for each in found), found
    assert {each.id: each.problem.name for each in found} == {each.file: each.problem for each in expected}


def test_a_new_submission_says_which_problem_it_answers(tmp_path: Path) -> None:
    problem = Problem.load(ROOT / "problems" / "selective_scan")
    assert head_line(new_submission(problem, tmp_path / "a.py", kind="cpu").read_bytes()) == problem.id


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "no JSON object"),
        ("[1]", "no JSON object"),
        ('{"id": "x"}', "either source or path"),
        ('{"id": "x", "source": "a", "path": "b"}', "either source or path"),
        ('{"id": ["x"], "source": "a"}', "id"),
        ('{"id": "x", "source": 3}', "source"),
        ('{"id": "x\\u0000", "problem": "softmax", "source": "a"}', "printable"),
        ('{"id": "x", "path": "nowhere.py"}', "is not a file"),
        ('{"id": "x", "path": "a\\u0000b"}', ""),
        ('{"id": "x", "problem": "softmaxx", "source": "a"}', "nearest is 'softmax'"),
        ('{"id": "level_3_problem_4_sample_0", "source": "a"}', "number 4 of level 3"),
        ('{"id": "good", "problem": "softmax", "source": "again"}', "is that of"),
        ("[" * 100_000, "no JSON object"),
    ],
)
def test_a_bad_line_is_told_by_its_number_and_the_rest_goes_on(tmp_path: Path, line: str, says: str) -> None:
    index = index_of(tmp_path / "p", "softmax", "mean")
    good = {"id": "good", "problem": "softmax", "source": RIGHT}
    path = lines_file(tmp_path, good, "", line, {**good, "id": "last"})
    first, bad, last = read_submissions([path], index)
    assert isinstance(first, Entry)
    assert isinstance(last, Entry)
    assert isinstance(bad, BadInput)
    assert bad.place == f"{path}:3"
    assert says in bad.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "problem", "source", "path", "more"), json_values)
).map(lambda value: json.dumps(value).encode())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(objects, st.binary(max_size=40)), max_size=6))
def test_any_lines_end_as_entries_or_as_bad_lines_with_their_number(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = index_of(folder / "p", "softmax")
        path = folder / "subs.jsonl"
        path.write_bytes(b"\n".join(lines) + b'\n{"id": "the very last", "source": "x"}')
        found = list(read_submissions([path], index))
        written = path.read_bytes().split(b"\n")
        assert len(found) == sum(1 for line in written if line.strip())
        assert isinstance(found[-1], Entry)
        for each in found:
            if isinstance(each, BadInput):
                number = int(each.place.rsplit(":", 1)[1])
                assert written[number - 1].strip()
            else:
                assert each.id.isprintable()


def test_a_submission_that_is_no_text_or_too_large_is_still_one(tmp_path: Path) -> None:
    index = index_of(tmp_path / "p", "softmax")
    subs = tmp_path / "subs"
    subs.mkdir()
    (subs / "a.py").write_bytes(b"\xff\xfe")
    (subs / "b.py").write_bytes(b"#" * (3 * MAX_BYTES))
    first, second = read_submissions([subs], index)
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert len(second.content) == MAX_BYTES + 1  # as much as shows that it is too large


def test_two_problems_of_one_id_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    index = index_of(tmp_path, "level1/1_square", "level2/1_square")
    assert [each.name for each in index.named] == ["level1/1_square", "level2/1_square"]
    assert index.by_name("level2/1_square").level == 2
    with pytest.raises(NoProblem, match="may be any of level1/1_square, level2/1_square"):
        index.by_name("1_square")


def test_problems_are_found_in_folders_and_broken_ones_are_told(tmp_path: Path) -> None:
    problem_file(tmp_path / "level1", "1_a")
    problem_file(tmp_path, "plain")
    folder = tmp_path / "own"
    problem_file(folder, "reference")
    (folder / "problem.toml").write_text("")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "problem.toml").write_text("")
    (tmp_path / "not_a_level").mkdir()
    problem_file(tmp_path / "not_a_level", "unseen")
    found = {path.name: loaded for path, loaded in find_problems([tmp_path, tmp_path / "level1" / "1_a.py"])}
    assert sorted(found) == ["1_a.py", "broken", "own", "plain.py"]
    assert isinstance(found["broken"], str)
    assert "reference.py" in found["broken"]
    assert all(isinstance(found[name], Problem) for name in ("1_a.py", "own", "plain.py"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# problem: a b\nimport x", "a b"),
        ("\ufeff# problem: a\r\nimport x", "a"),
        ("import x\n# problem: a", None),
        ("# the problem: a", None),
        ("# problem:\n", None),
        ("", None),
    ],
)
def test_the_head_line(text: str, name: str | None) -> None:
    assert head_line(text.encode()) == name


@pytest.mark.parametrize(
    ("source", "builds"),
    [
        ("from torch.utils.cpp_extension import load_inline", True),
        ("from torch.utils import cpp_extension as c", True),
        ("import torch.utils.cpp_extension", True),
        ("import torch\ntorch.utils.cpp_extension.load(name='x', sources=[])", True),
        ("import importlib\nimportlib.import_module('torch.utils.cpp_extension')", True),
        ("import torch\nx = torch.load", False),
        ("# load_inline", False),
        ("x = (", False),
        ("import triton", False),
    ],
)
def test_only_a_text_that_mentions_the_builder_is_built_ahead(tmp_path: Path, source: str, builds: bool) -> None:
    (named,) = index_of(tmp_path, "softmax").named
    assert Job(named.problem, source.encode(), "", "x", Options()).wants_build() is builds


def test_a_key_tells_apart_what_is_graded_differently(tmp_path: Path) -> None:
    one, two, same = (
        Problem.load(problem_file(tmp_path, name, extra)) for name, extra in (("a", ""), ("b", "#"), ("c", ""))
    )
    job = Job(one, b"x", "sha", "name", Options())
    assert job.key("gpu") == Job(same, b"x", "sha", "other name", Options()).key("gpu")
    others = [
        Job(two, b"x", "sha", "name", Options()).key("gpu"),
        Job(one, b"y", "other", "name", Options()).key("gpu"),
        Job(one, b"x", "sha", "name", Options(workload="large")).key("gpu"),
        Job(one, b"x", "sha", "name", Options(mode="check")).key("gpu"),
        Job(one, b"x", "sha", "name", Options(), attempt=2).key("gpu"),
        job.key("cpu"),
    ]
    assert len({job.key("gpu"), *others}) == 7


def test_one_problem_alone_needs_no_name(tmp_path: Path) -> None:
    index = index_of(tmp_path / "p", "softmax")
    (found,) = read_submissions([lines_file(tmp_path, {"source": RIGHT})], index)
    assert isinstance(found, Entry)
    assert (found.id, found.problem.name) == ("subs.jsonl:1", "softmax")


def test_nothing_and_nowhere_are_told(tmp_path: Path) -> None:
    index = ProblemIndex([])
    (tmp_path / "empty").mkdir()
    found = list(read_submissions([tmp_path / "empty", tmp_path / "nowhere"], index))
    assert [type(each) for each in found] == [BadInput, BadInput]
