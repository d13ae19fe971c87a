"""Problems in the field's formats, unmodified, graded on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from format_samples import CPP, CUSTOM, HELPER, NORM, REFERENCE, WRITES, flashinfer, gpumode, sol, solution, workload
from safetensors.torch import save_file

from harness import Problem, Report, grade
from harness.check.oracle import Oracle
from harness.load.problem import ProblemError
from harness.load.submission import Submission


def check(problem: Path, text: str, name: str = "answer.py", **options: Any) -> Report:
    loaded = Problem.load(problem)
    submission = Submission.from_source(text, name, loaded.calling)
    return grade(loaded, submission, **{"device": "cpu", "mode": "check", **options})


def test_a_gpumode_task_ranks_by_its_benchmarks(tmp_path: Path) -> None:
    report = check(gpumode(tmp_path), CUSTOM, mode="run", budget_s=0.2, relative_half_width=0.5)
    assert report.accepted, report.reason.message
    assert [each.name for each in report.workloads] == ["benchmark-0", "benchmark-1"]
    assert report.ranking is not None
    assert report.correctness is not None
    assert report.correctness.also_checked == ["test-0"]
    assert report.correctness.leaves[0].own_check == ""
    assert report.problem is not None
    assert report.problem.format == "gpumode"
    assert any("milestones" in note for note in report.problem.notes)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (("x.cumsum(1)", "x.cumsum(1) * 1.01"), "output.values", "own check refuses it. It says: off by"),
        (("return out", "raise ValueError('no')"), "run.exception", "line 8"),
        (("return out", "return (out,)"), "output.structure", "tuple"),
        (("from task", "from reference import ref_kernel\nfrom task"), "run.exception", "No module named 'reference'"),
        (("def custom_kernel", "def kernel"), "submission.no_entry", "the functions there are: kernel"),
    ],
)
def test_what_is_wrong_with_a_custom_kernel_is_told(
    tmp_path: Path, change: tuple[str, str], code: str, says: str
) -> None:
    (tmp_path / "answer.py").write_text(CUSTOM.replace(*change))
    report = grade(gpumode(tmp_path), tmp_path / "answer.py", device="cpu", mode="check")
    assert (report.reason.code, says in report.reason.message) == (code, True), report.reason.message


def test_a_check_that_raises_on_an_odd_output_refuses_it(tmp_path: Path) -> None:
    raises = REFERENCE + "\ndef check_implementation(data, output):\n    raise KeyError('x')\n"
    report = check(gpumode(tmp_path, reference=raises), CUSTOM)
    assert report.reason.code == "output.values"
    assert "KeyError" in report.reason.message


@pytest.mark.parametrize("returned", ["None", "1.5", "torch.empty(0)"])
def test_a_task_whose_own_check_is_never_asked_is_refused(tmp_path: Path, returned: str) -> None:
    refuses = REFERENCE + f"\nref_kernel = lambda data: {returned}\ncheck_implementation = lambda *_: (False, 'no')\n"
    kernel = f"import torch\ndef custom_kernel(data):\n    return {returned}\n"
    with pytest.raises(ProblemError, match="no tensor with elements"):
        check(gpumode(tmp_path, reference=refuses), kernel)


def test_room_for_the_output_holds_no_answer(tmp_path: Path) -> None:
    report = check(gpumode(tmp_path), "def custom_kernel(data):\n    return data[1]\n")
    assert report.reason.code == "output.values"
    module = Problem.load(gpumode(tmp_path))
    oracle = Oracle(module, module.graded(None, "cpu")[0], torch.device("cpu"))
    oracle.construct([], 0)
    for seed in range(5):
        oracle.expected(seed, 0)
        assert oracle.inputs(seed)[0][1].isnan().all()


def test_inputs_come_from_secret_seeds(tmp_path: Path) -> None:
    problem = Problem.load(gpumode(tmp_path))
    module = problem.module(problem.graded(None, "cpu")[0])
    torch.manual_seed(1)
    first, second = module.get_inputs()[0][0], module.get_inputs()[0][0]
    torch.manual_seed(1)
    assert torch.equal(first, module.get_inputs()[0][0])
    assert not torch.equal(first, second)


def test_two_tasks_do_not_see_each_others_utils(tmp_path: Path) -> None:
    one = gpumode(tmp_path / "one")
    other = gpumode(
        tmp_path / "other", utils="def near(reference, **_):\n    return lambda data, output: (True, 'other')\n"
    )
    modules = [Problem.load(path).module(Problem.load(path).workload(None, "cpu")) for path in (one, other)]
    wrong = torch.zeros(4, 16)
    said = [module.judge(module.get_inputs(), wrong, None) for module in modules]
    assert said[0] is not None
    assert said[1] is None


def test_a_solution_that_writes_to_its_outputs(tmp_path: Path) -> None:
    text = solution({"main.py": WRITES, "helper.py": HELPER})
    report = check(sol(tmp_path / "norm"), text, "a.json", mode="run", budget_s=0.2, relative_half_width=0.5)
    assert report.accepted, report.reason.message
    assert [each.name for each in report.workloads] == ["a", "b"]
    assert report.correctness is not None
    assert {leaf.path for leaf in report.correctness.leaves} == {"output['y']", "output['rstd']"}


def test_a_profile_shows_nothing_of_the_room_for_outputs(tmp_path: Path) -> None:
    """That is made ready by us, before a call."""
    text = solution({"main.py": WRITES, "helper.py": HELPER})
    report = check(sol(tmp_path / "norm"), text, "a.json", mode="profile", workload="a")
    assert report.accepted, report.reason.message
    assert report.profile is not None
    names = [operator.name for operator in report.profile.operators]
    assert any("copy_" in name for name in names)
    assert "aten::empty" not in names, "room was made within the call"


def test_an_output_that_is_not_written_is_wrong(tmp_path: Path) -> None:
    forgets = WRITES.replace("    rstd.copy_(s.squeeze(-1))\n", "")
    report = check(sol(tmp_path / "norm"), solution({"main.py": forgets, "helper.py": HELPER}), "mine.json")
    assert report.reason.code == "output.values"
    assert "output['rstd']" in report.reason.message
    assert "filled with just this value" in report.reason.message


def test_inputs_may_not_be_written_to(tmp_path: Path) -> None:
    spoils = WRITES + "    x.zero_()\n"
    report = check(sol(tmp_path / "norm"), solution({"main.py": spoils, "helper.py": HELPER}), "mine.json")
    assert report.reason.code == "input.mutated"


def test_a_plain_file_with_run_returns_its_outputs(tmp_path: Path) -> None:
    assert check(sol(tmp_path / "norm"), NORM).accepted


def test_a_rule_of_a_workload_decides(tmp_path: Path) -> None:
    rule = {"max_atol": 1e-9, "max_rtol": 1e-9}
    strict = sol(tmp_path / "strict", workload("a", 3, correctness=rule))
    loose = sol(tmp_path / "loose", workload("a", 30, correctness=rule | {"required_matched_ratio": 0.5}))
    slightly_off = NORM.replace("return (x.float()", "rstd[:1] *= 1.0001\n    return (x.float()")
    report = check(strict, slightly_off)
    assert report.reason.code == "output.values"
    assert "have to be" in report.reason.message
    assert check(loose, slightly_off).accepted


def test_inputs_from_a_file(tmp_path: Path) -> None:
    save_file({"w": torch.rand(16).half() + 0.5}, tmp_path / "w.safetensors")
    stored = {"type": "safetensors", "path": "w.safetensors", "tensor_key": "w"}
    load = workload("a", 3)
    load["inputs"]["weight"] = stored
    file = flashinfer(tmp_path, load)
    report = check(file, NORM)
    assert report.accepted, report.reason.message
    assert report.problem is not None
    assert any("weight come from files" in note for note in report.problem.notes)
    load["inputs"]["weight"] = stored | {"tensor_key": "v"}
    with pytest.raises(ProblemError, match=r"holds no tensor 'v'; it holds: w"):
        check(flashinfer(tmp_path, load), NORM)
    save_file({"w": torch.rand(17).half()}, tmp_path / "w.safetensors")
    load["inputs"]["weight"] = stored
    with pytest.raises(ProblemError, match=r"float16 \[17\], and weight has to be float16 \[16\]"):
        check(flashinfer(tmp_path, load), NORM)


def test_custom_inputs(tmp_path: Path) -> None:
    makes = NORM + (
        "\ndef make(axes, device):\n    h = axes['half'] * 2\n"
        "    return {'weight': torch.ones(h).half(), 'x': torch.randn(axes['batch'], h).half(), 'eps': 1e-5}\n"
    )
    custom = {name: {"type": "custom"} for name in ("x", "weight", "eps")}
    folder = sol(
        tmp_path / "n", workload("a", 2, inputs=custom), reference=makes, custom_inputs_entrypoint="make"
    )  # fmt: skip
    assert check(folder, NORM).accepted


def test_a_reference_that_breaks_its_own_definition_is_told(tmp_path: Path) -> None:
    folder = sol(tmp_path / "n", reference=NORM.replace(".to(x.dtype)", ""))
    with pytest.raises(ProblemError, match="run returned y as float32"):
        check(folder, NORM)


@pytest.mark.slow
def test_a_solution_in_cpp_is_built(tmp_path: Path) -> None:
    text = solution({"kernel.cpp": CPP}, language="cpp", entry_point="kernel.cpp::norm", binding="torch")
    report = check(sol(tmp_path / "norm"), text, "mine.json")
    assert report.accepted, report.reason.message
    assert [each.name for each in report.build.extensions] == ["solution"]


def test_infinity_is_matched_by_infinity_alone(tmp_path: Path) -> None:
    """Beside an infinite reference every error is small, whatever the rule bears."""
    infinite = NORM.replace("rstd.squeeze(-1)", "rstd.squeeze(-1) / 0.0")
    rule = {"max_atol": 1e-3, "max_rtol": 1e-3}
    problem = sol(tmp_path / "p", workload("a", 3, correctness=rule), reference=infinite)
    assert check(problem, infinite).accepted
    for wrong in ("rstd.squeeze(-1)", "-rstd.squeeze(-1) / 0.0"):
        report = check(problem, NORM.replace("rstd.squeeze(-1)", wrong))
        assert report.reason.code == "output.values"
