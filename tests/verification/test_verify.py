"""Each kind of broken problem is refused, by the finding that names what is wrong; a right one is not."""

from __future__ import annotations

from pathlib import Path

import broken
import pytest

from harness import Problem, ProblemError, Verification, verify
from harness.verification.findings import Example
from harness.verification.floors import check_times
from harness.verification.subject import Found

NO_FLOOR = broken.TOML.partition("[floor]")[0]


def codes(found: Verification, *severities: str) -> set[str]:
    return {finding.code for finding in found.findings if finding.severity in (severities or ("error", "warning"))}


def message(found: Verification, code: str) -> str:
    return next(finding.message for finding in found.findings if finding.code == code)


def test_a_right_problem_has_no_finding(verified):
    found = verified()
    assert codes(found) == set()
    assert found.good(werror=True)
    assert {answer.name for answer in found.answers} == {
        *("zeros", "ones", "mean", "previous", "input", "permuted", "half", "rows", "element")
    }
    assert all(answer.refused_by == "tolerance" for answer in found.answers)
    assert {(moved.name, moved.kind) for moved in found.moved} == {
        *(("inputs[0]", "input"), ("inputs[1]", "input"), ("weight", "parameter"))
    }
    assert all(moved.change > 1 for moved in found.moved)
    (room,) = found.room
    assert room.factor is not None
    assert 100 < room.factor < 10_000
    assert Verification.model_validate_json(found.model_dump_json()) == found


def test_the_seed_repeats_a_verification(tmp_path):
    path = broken.write(tmp_path)
    first = verify(path, device="cpu", examples=False)
    again = verify(path, device="cpu", examples=False, seed=int(first.seed))
    assert (again.moved, again.room, again.answers) == (first.moved, first.room, first.answers)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("torch.full_like(x, 2.0)", {"answer.mean", "answer.previous", "answer.permuted", "moves.input"}),
        ("torch.zeros_like(x)", {"answer.zeros", "answer.mean", "answer.rows"}),
        ("torch.ones_like(x)", {"answer.ones"}),
        # The tolerance is relative to the output's size: a large offset hides what varies.
        ("x * self.weight * 1e-6 + 1000.0 + y * 1e-6", {"answer.mean", "answer.previous", "moves.input"}),
        ("x * self.weight", {"moves.input"}),
        ("x + y", {"moves.parameter"}),
        ("x * self.weight + y * 1e-7", {"moves.input"}),
        ("y", {"answer.input"}),
        ("(x * self.weight + y).sum(0, keepdim=True).expand(24, -1)", {"answer.permuted"}),
        ("torch.cat([x * self.weight + y, torch.zeros(1, x.shape[1])])", {"answer.rows"}),
        ("x * self.weight + y + torch.tensor([float('nan')] + [0.0] * 31)", {"reference.not_finite"}),
        ("y.mul_(2).add_(x * self.weight)", {"reference.mutates"}),
        ("(x * self.weight + y)[:0]", {"reference.nothing"}),
        ("(x @ torch.rand(7, 7)) * self.weight + y", {"reference.fails"}),
    ],
)
def test_an_output_that_tells_too_little(verified, returned, expected):
    found = verified(returned)
    assert expected <= codes(found)
    assert not found.good(werror=True)


def test_a_dead_input_is_named_with_how_little_it_does(verified):
    found = verified("x * self.weight + y * 1e-7")
    assert "inputs[1]" in message(found, "moves.input")
    assert codes(found, "error") == {"moves.input"}


def test_a_dead_parameter_may_be_declared(verified):
    still = '[verify.still]\nweight = "it is not used"\n'
    found = verified("x + y", broken.TOML + still)
    assert codes(found) == set()
    assert "it is not used" in message(found, "moves.declared")


@pytest.mark.parametrize("name", ["weight", '"inputs[7]"'])
def test_a_declaration_that_is_wrong_is_told(verified, name):
    found = verified(toml=f'{broken.TOML}[verify.still]\n{name} = "so I thought"\n')
    assert codes(found) == {"moves.declared_wrongly"}


def test_a_declaration_does_not_make_another_problem(tmp_path):
    path = broken.write(tmp_path)
    before = Problem.load(path).version
    (path / "problem.toml").write_text(broken.TOML + '[verify.still]\nweight = "why"\n')
    assert Problem.load(path).version == before


def test_a_parameter_of_ones_can_be_forgotten(verified):
    found = verified(weight="torch.ones(features)")
    assert codes(found) == {"moves.neutral"}


def test_a_problem_can_say_why_a_parameter_is_neutral(verified):
    why = '[verify.neutral]\nweight = "its authors start it so"\n'
    found = verified(weight="torch.ones(features)", toml=broken.TOML + why)
    assert codes(found) == set()
    assert "moves.neutral_declared" in codes(found, "note")


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_parameter_that_is_not_neutral_is_not_declared_so(verified, name):
    found = verified(toml=f'{broken.TOML}[verify.neutral]\n{name} = "so I thought"\n')
    assert codes(found) == {"moves.declared_wrongly"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"inputs": "[torch.randn(24, 32, generator=torch.Generator().manual_seed(1)), torch.ones(24, 32)]"},
         "repeat.fixed_inputs"),
        ({"inputs": "[torch.from_numpy(__import__('numpy').random.default_rng().random((24, 32), 'float32'))] * 2"},
         "repeat.inputs"),
        ({"weight": "torch.tensor(list(__import__('os').urandom(features))) / 64"}, "repeat.parameters"),
        ({"returned": "x * self.weight + y + __import__('random').SystemRandom().random()"}, "repeat.output"),
        # A counter beside the buffers: each call gives a little more.
        ({"returned": "x * self.weight + y * (1 + 1e-6 * next(self.__dict__.setdefault('n', iter(range(99)))))"},
         "repeat.rounding"),
    ],
)  # fmt: skip
def test_what_no_seed_reaches(verified, changed, expected):
    assert expected in codes(verified(**changed), "error", "note")


def test_a_tolerance_that_lets_half_precision_pass_is_caught_by_the_audit(verified):
    found = verified(toml=broken.TOML + "[tolerance]\natol = 1e-3\nrtol = 1e-3\n")
    by = {answer.detail: answer.refused_by for answer in found.answers if answer.name == "half"}
    assert by == {"fp16": "precision", "bf16": "tolerance"}
    assert codes(found) == set()


def test_a_tolerance_and_a_policy_that_let_it_pass(verified):
    tolerance = "[tolerance]\natol = 1e-3\nrtol = 1e-3\n"
    found = verified(toml=f'precision_policy = "flag"\n{broken.TOML}{tolerance}')
    assert codes(found) == {"answer.half"}
    assert "only flags" in message(found, "answer.half")


def test_half_precision_that_is_asked_for_is_no_trivial_answer(verified):
    found = verified(toml='precision = "bf16"\n' + broken.TOML + "[tolerance]\natol = 0.1\nrtol = 0.1\n")
    assert "half" not in {answer.name for answer in found.answers}
    assert codes(found) == set()
    assert found.room[0].precision == "bf16"


def test_whole_numbers_are_exact_in_half_precision_and_that_is_noted(verified):
    found = verified("torch.sign(x * self.weight + y)")
    assert codes(found, "note") >= {"answer.half"}
    assert "answer.half" not in codes(found)


def test_exact_leaves_are_off_by_a_step_and_depend_on_rounding_only_where_they_do(verified):
    found = verified("(x * self.weight + y).argmax(dim=1), (x * self.weight + y) > 0", NO_FLOOR)
    assert codes(found) == set()
    assert [answer.refused_by for answer in found.answers if answer.name == "element"] == ["tolerance"] * 2


def test_a_tie_that_rounding_decides(verified):
    found = verified(
        "((x + 1e4 - 1e4) * self.weight + y * 0).sum(dim=1, keepdim=True) > (x * self.weight).sum(1, True)"
    )
    assert "room.integers" in codes(found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("precision", ["any", "fp32"])
def test_the_last_rounding_of_a_narrow_output_is_set_aside(verified, dtype, precision):
    found = verified(f"(x * self.weight + y).to(torch.{dtype})", f'precision = "{precision}"\n{NO_FLOOR}')
    assert codes(found) == set()
    assert [room.precision for room in found.room] == ["fp32"]


def test_an_output_in_eight_bits_has_all_but_its_room_looked_at(verified):
    found = verified("(x * self.weight + y).to(torch.float8_e4m3fn)", 'precision = "any"\n' + NO_FLOOR)
    assert codes(found) == set()
    assert len(found.answers) > 6
    assert "The room of the tolerance" in found.left_out[0]


def test_a_precision_that_the_tolerance_does_not_allow(verified):
    found = verified("(x * self.weight + y).double()", NO_FLOOR)
    assert codes(found) == {"room.none"}
    assert "fp32" in message(found, "room.none")


@pytest.mark.parametrize(("tolerance", "code"), [("1e-8", "room.none"), ("1e-6", "room.tight")])
def test_a_tolerance_too_narrow_for_another_order(verified, tolerance, code):
    found = verified(toml=f"{broken.TOML}[tolerance]\natol = {tolerance}\nrtol = {tolerance}\n")
    assert codes(found) == {code}


def test_a_floor_that_counts_more_than_there_is(verified):
    found = verified(toml=broken.TOML.replace("3 * rows", "5 * rows"))
    assert codes(found) == {"floor.bytes"}


def test_no_floor_is_noted(verified):
    found = verified(toml=NO_FLOOR)
    assert codes(found, "note") == {"floor.none"}


@pytest.mark.parametrize(
    ("got", "median_us", "reference_us", "errors"),
    [
        (("accepted", "grade.accepted"), 20.0, 50.0, 0),
        (("accepted", "grade.accepted"), 9.5, 50.0, 1),
        (("rejected", "time.below_floor"), 5.0, 8.0, 2),
        (("wrong_answer", "output.values"), 5.0, 50.0, 0),
    ],
)
def test_a_floor_above_a_true_time(got, median_us, reference_us, errors):
    found = Found()
    example = Example(
        file="a.py",
        device="cuda",
        workload=None,
        expected=("accepted", "grade.accepted"),
        got=got,
        median_us=median_us,
        reference_us=reference_us,
        floor_us=10.0,
    )
    check_times([example], found)
    assert [finding.code for finding in found.findings] == ["floor.above_time"] * errors


def test_limits_that_the_reference_does_not_keep(verified):
    limits = broken.TOML.replace("call_s = 30", "call_s = 0.000001\nmemory_gb = 0.01")
    limits = limits.replace("construct_s = 30", "construct_s = 0.000001")
    assert codes(verified(toml=limits)) == {"cost.call", "cost.construct", "cost.memory"}


def test_a_folder_that_can_not_be_loaded_is_a_finding_and_one_that_is_not_there_wrong_use(tmp_path):
    path = broken.write(tmp_path, toml="titel = 1\n")
    assert codes(verify(path, device="cpu")) == {"folder.malformed"}
    with pytest.raises(ProblemError, match="no problem at"):
        verify(tmp_path / "nothing")


def test_what_a_solver_reads_and_what_is_graded_by_default(tmp_path):
    toml = '[workloads.default]\ntimed = false\n[workloads.big]\ndevice = "cpu"\n[default_workload]\ncuda = "big"\n'
    path = broken.write(tmp_path, toml=toml)
    (path / "README.md").unlink()
    found = verify(path, device="cpu", examples=False)
    assert [finding.code for finding in found.of("warning")] == [
        "folder.statement",
        "folder.default_workload",
        "folder.default_workload",
    ]


def test_further_sizes_are_run_too(verified):
    odd = "\n[workloads.odd]\ntimed = false\nargs = { rows = 3, features = 5 }\n"
    found = verified(toml=broken.TOML + odd)
    assert found.also == ["odd"]
    assert [cost.workload for cost in found.costs] == ["default", "odd"]


SAMPLES = Path(__file__).resolve().parents[1] / "kernelbench"


@pytest.mark.parametrize("sample", ["batch_norm_train", "bool_mask", "int64_output", "tuple_output"])
def test_kernelbench_problems_have_no_error_but_a_bias_that_is_taken_off_again(sample):
    found = verify(SAMPLES / f"{sample}.py", device="cpu", examples=False, seed=1 << 70)
    errors = {finding.evidence["name"]: finding.code for finding in found.of("error")}
    assert errors == ({"conv.bias": "moves.parameter"} if sample == "batch_norm_train" else {})


def test_plain_numbers_alone_are_an_output_of_which_little_can_be_said(verified):
    assert "reference.nothing" in codes(verified("float((x * self.weight + y).sum())"), "warning")


def test_the_samples_pass_without_an_error():
    root = Path(__file__).resolve().parents[2]
    for path in sorted((root / "problems").iterdir()):
        found = verify(path, device="cpu", examples=False)
        assert found.good(), found.findings
