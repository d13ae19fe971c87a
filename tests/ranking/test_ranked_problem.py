"""[ranking] of problem.toml, and a grading by it on the CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from timings import timing

from harness import Problem, Report, grade
from harness.batch.reward import reward
from harness.cli.streams import console
from harness.cli.table import print_report
from harness.clock.several import ranked
from harness.judge.evidence import Evidence
from harness.judge.verdict import judge
from harness.load.problem import ProblemError
from harness.report import LeafReport, Verdict
from harness.seeds import Seeds
from server.redact import for_solver

TOML = """
[ranking]
workloads = ["short", "long"]
[default_workload]
cuda = "short"
cpu = "short"
[workloads.short]
args = { n = 16 }
trials = 2
[workloads.long]
args = { n = 48 }
trials = 2
[workloads.gpu]
device = "cuda"
[workloads.odd]
args = { n = 7 }
timed = false
trials = 1
"""
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(n) + 0.5)

    def forward(self, x):
        return (x * self.weight).cumsum(0)

def get_inputs(n=16):
    return [torch.randn(n, n)]

def get_init_inputs(n=16):
    return [n]
"""
RIGHT = REFERENCE.replace("class Model", "class ModelNew").split("def get_inputs")[0]
WRONG_WHEN_LONG = RIGHT.replace("return (x", "return (len(x) < 40) * (x")
CHANGES = RIGHT.replace("return (x", "x.add_(len(x) // 40)\n        return ((x - len(x) // 40)")


def problem(folder: Path, toml: str = TOML) -> Problem:
    folder.mkdir(exist_ok=True)
    (folder / "problem.toml").write_text(toml)
    (folder / "reference.py").write_text(REFERENCE)
    return Problem.load(folder)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """The graded problem's reports by submission."""
    folder = tmp_path_factory.mktemp("ranked")
    loaded = problem(folder / "sums")
    found = {}
    for name, text in {"right": RIGHT, "wrong": WRONG_WHEN_LONG, "changes": CHANGES}.items():
        (folder / f"{name}.py").write_text(text)
        found[name] = grade(loaded, folder / f"{name}.py", device="cpu", budget_s=0.2, relative_half_width=0.5)
    return found


def test_a_right_submission_is_timed_with_each_workload(reports: dict[str, Report]) -> None:
    report = reports["right"]
    assert report.verdict is Verdict.ACCEPTED, report.reason.message
    assert report.problem is not None
    assert (report.problem.workload, report.timing) == ("ranking", None)
    assert [each.name for each in report.workloads] == ["short", "long"]
    timings = [each.timing for each in report.workloads if each.timing is not None]
    assert report.ranking == ranked(timings, "geometric_mean") == report.score
    for each in report.workloads:
        assert each.audit is not None
        assert each.correctness is not None
        assert each.correctness.trials == 2
        assert each.correctness.timed_calls_verified > 0
        assert each.timing is not None
        assert each.timing.outside is not None
    assert report.correctness is not None
    assert report.correctness.also_checked == ["odd"]
    assert [stage.name for stage in report.stages] == ["load", "build", "check", "time", "audit", "judge"]
    assert Report.model_validate_json(report.model_dump_json()) == report


def test_a_wrong_answer_with_a_later_workload_is_found_before_anything_is_timed(reports: dict[str, Report]) -> None:
    report = reports["wrong"]
    assert report.reason.code == "output.values"
    assert report.reason.evidence["workload"] == "long"
    assert "one of 2 that rank" in report.reason.message
    assert "time" not in [stage.name for stage in report.stages]
    assert report.score is None
    assert report.ranking is None
    shown = for_solver(json.loads(report.model_dump_json()))
    assert "with the workload 'long'" in shown["reason"]["message"]
    assert "worst_expected" not in json.dumps(shown)


def test_a_rule_broken_with_one_workload_counts(reports: dict[str, Report]) -> None:
    report = reports["changes"]
    assert (report.verdict, report.reason.code) == (Verdict.REJECTED, "input.mutated")
    assert report.reason.evidence["workload"] == "long"


def test_the_table_has_a_row_for_each(reports: dict[str, Report]) -> None:
    out = StringIO()
    print_report(reports["right"], console(out))
    text = out.getvalue()
    assert "geometric mean of 2" in text
    assert "with 2 workloads; shapes of the first, the largest errors of all" in text
    assert "4 of 4 compared" in text
    assert "short" in text
    assert "long" in text
    assert "--workload" not in text  # what repeats it names none


def test_a_warning_of_the_clock_says_which_workload_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.clock.stage._SURE", 0.0)
    loaded = problem(tmp_path / "sums")
    (tmp_path / "right.py").write_text(RIGHT)
    report = grade(loaded, tmp_path / "right.py", device="cpu", budget_s=0.2, relative_half_width=0.5)
    told = [each.message for each in report.warnings if each.code == "time.weakly_confirmed"]
    assert [message.partition(": ")[0] for message in told] == ["Workload short", "Workload long"]


def test_a_named_workload_is_graded_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(RIGHT)
    report = grade(problem(tmp_path / "sums"), tmp_path / "a.py", device="cpu", mode="check", workload="long")
    assert report.accepted
    assert (report.workloads, report.ranking) == ([], None)
    assert report.problem is not None
    assert report.problem.workload == "long"


def test_workloads_for_another_device_do_not_rank(tmp_path: Path) -> None:
    loaded = problem(tmp_path / "sums", TOML.replace('"long"]', '"gpu"]'))
    assert [each.name for each in loaded.graded(None, "cuda")] == ["short", "gpu"]
    assert [each.name for each in loaded.graded(None, "cpu")] == ["short"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"long"]', '"lang"]'), "'lang', but the workloads are"),
        (('"long"]', '"odd"]'), "timed = false"),
        (('"long"]', '"short"]'), "twice"),
        (('"long"]', '"long"]\nby = "median"'), "'by'"),
        (("[workloads.gpu]", "[workloads.ranking]"), "rename it"),
    ],
)
def test_a_ranking_that_makes_no_sense_is_told(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(ProblemError, match=says.replace("(", "")):
        problem(tmp_path / "sums", TOML.replace(*change))


def test_a_version_without_ranking_is_what_it_was(tmp_path: Path) -> None:
    plain = TOML.split("[default_workload]")[1]
    alone = problem(tmp_path / "a", "[default_workload]" + plain)
    assert alone.version != problem(tmp_path / "b").version
    assert "ranking" not in alone.spec.graded_content()


def test_seeds_of_two_workloads_have_nothing_in_common() -> None:
    seeds = Seeds(12345 << 64 | 678)
    seeds.draw()
    drawn = {
        each.of("timed inputs", number) for each in (seeds, seeds.within("a"), seeds.within("b")) for number in (0, 1)
    }
    assert len(drawn) == 6
    assert seeds.within("a").parameters() == seeds.parameters()


def test_what_was_found_of_one_workload_is_not_held_against_the_next() -> None:
    leaf = LeafReport(path="output", shape=[1], dtype="float32", ok=True, atol=0.0, rtol=0.0)
    evidence = Evidence(ranks=("a", "b"), workload="a", early=[leaf])
    evidence.timed = [leaf.model_copy(update={"ok": False})]
    assert judge(evidence).reason.code == "output.timed_values"
    assert judge(evidence).reason.evidence["workload"] == "a"
    evidence.go_on("b", [leaf])
    assert judge(replace(evidence)).reason.code == "grade.correct"


def test_a_reward_comes_from_the_ranking(reports: dict[str, Report]) -> None:
    made = ranked([timing(10.0, 80.0, seed=1), timing(10.0, 80.0, seed=2)], "geometric_mean")
    report: Any = reports["right"].model_copy(update={"ranking": made})
    worth = reward(report)
    assert worth.speedup == made.speedup_ci95[0]
    assert worth.value > 0.7
