"""Outputs against expected outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.check.compare import Expected, Unusable, _Tally, check_form, compare, worst
from harness.load.spec import Tolerance
from harness.report import LeafReport
from harness.wire.transfer import flat_bytes
from harness.wire.tree import take_apart
from harness.workers.claims import LeafClaim

DEFAULT = Tolerance()


def in_pieces(tensor: torch.Tensor, size: int = 1 << 30) -> Iterator[tuple[int, int, torch.Tensor]]:
    data = flat_bytes(tensor)
    for first in range(0, data.numel(), size):
        yield 0, first, data[first : first + size]


def leaf(
    reference: torch.Tensor, output: torch.Tensor, tolerance: Tolerance = DEFAULT, piece: int = 1 << 30
) -> LeafReport:
    (report,) = compare(Expected.of(reference, tolerance), in_pieces(output, piece), 0)
    return report


def test_equal_outputs_match() -> None:
    reference = torch.randn(7, 9)
    assert leaf(reference, reference.clone()).ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_each_dtype_has_its_default_tolerance(dtype: torch.dtype) -> None:
    reference = torch.ones(100, dtype=dtype)
    limit = {torch.float64: 1e-7, torch.float32: 1e-4, torch.complex64: 1e-4}.get(dtype, 1e-2)
    assert leaf(reference, reference * (1 + 1.9 * limit)).ok
    assert not leaf(reference, reference * (1 + 4 * limit)).ok


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integers_are_exact(dtype: torch.dtype) -> None:
    reference = torch.arange(50).to(dtype)
    wrong = reference.clone()
    wrong[17] += 1
    report = leaf(reference, wrong)
    assert (report.ok, report.outside, report.worst_index) == (False, 1, [17])


def test_large_integers_that_run_together_as_doubles_are_told_apart() -> None:
    reference = torch.tensor([2**53, 2**53 + 2])
    assert not leaf(reference, torch.tensor([2**53 + 1, 2**53 + 2])).ok


def test_bools_are_exact_and_anything_but_zero_is_true() -> None:
    reference = torch.tensor([True, False, True])
    assert leaf(reference, reference.clone()).ok
    assert not leaf(reference, torch.tensor([True, True, True])).ok
    expected = Expected.of(reference, DEFAULT)
    (report,) = compare(expected, [(0, 0, torch.tensor([255, 0, 1], dtype=torch.uint8))], 0)
    assert report.ok
    (report,) = compare(expected, [(0, 0, torch.tensor([255, 2, 1], dtype=torch.uint8))], 0)
    assert report.outside == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("share", [0.5, 1e-3])
def test_a_mask_does_not_hide_what_is_beside_it(dtype: torch.dtype, share: float) -> None:
    masked = torch.rand(64, 64) < share
    masked[3, 5] = True
    fill = torch.finfo(dtype).min
    reference = torch.randn(64, 64, dtype=torch.float64).to(dtype).masked_fill(masked, fill)
    assert leaf(reference, reference.clone()).ok
    assert not leaf(reference, torch.zeros_like(reference).masked_fill(masked, fill)).ok
    assert not leaf(reference, torch.zeros_like(reference)).ok
    assert not leaf(reference, torch.full_like(reference, math.inf)).ok


def test_no_absolute_tolerance_is_none_however_large_the_output() -> None:
    reference = torch.full((10,), 1e200, dtype=torch.float64)
    assert leaf(reference, reference.clone(), Tolerance(atol=0, rtol=1e-6)).ok
    assert not leaf(reference, reference * 1.1, Tolerance(atol=0, rtol=1e-6)).ok
    assert not leaf(reference, reference * 1.1).ok


def test_a_wide_range_of_values_keeps_its_scale() -> None:
    reference = torch.softmax(6 * torch.randn(8, 1000), dim=1)
    assert leaf(reference, reference + 5e-5 * reference.square().mean().sqrt()).ok


def test_a_complex_number_is_wrong_with_one_part() -> None:
    reference = torch.tensor([complex(math.nan, 2.0), complex(1.0, 1.0)])
    assert leaf(reference, reference.clone()).ok
    assert not leaf(reference, torch.tensor([complex(math.nan, -7.0), complex(1.0, 1.0)])).ok
    assert leaf(reference, torch.tensor([complex(math.nan, 2.0), complex(1.0, 3.0)])).worst_index == [1]


def test_memory_that_the_reference_writes_to_again_is_not_what_was_expected() -> None:
    state = torch.zeros(4)
    expected = Expected.of(state, DEFAULT)
    state += 1
    (report,) = compare(expected, in_pieces(torch.zeros(4)), 0)
    assert report.ok


def test_keys_in_another_order_are_the_same_output() -> None:
    one, two = torch.zeros(2), torch.ones(2)
    expected = Expected.of({"a": one, "b": two}, DEFAULT)
    value, leaves = take_apart({"b": two, "a": one}, sort_keys=True)
    assert check_form(expected, value, [claim(), claim()], "cpu") is None
    assert torch.equal(leaves[0], one)


def test_zeros_do_not_pass_for_small_outputs() -> None:
    reference = torch.softmax(torch.randn(4, 65536), dim=1)
    report = leaf(reference, torch.zeros_like(reference))
    assert not report.ok
    assert report.fraction_outside is not None
    assert report.fraction_outside > 0.9


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_a_number_never_passes_for_a_number(bad: float) -> None:
    reference = torch.randn(1000)
    wrong = reference.clone()
    wrong[3] = bad
    report = leaf(reference, wrong)
    assert (report.ok, report.outside, report.worst_index) == (False, 1, [3])
    assert "NaN or infinity" in report.reading


def test_numbers_that_are_not_finite_must_be_the_same() -> None:
    reference = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    assert leaf(reference, reference.clone()).ok
    for index, other in ((0, 0.0), (1, -math.inf), (1, math.nan), (2, 3e38), (0, math.inf)):
        wrong = reference.clone()
        wrong[index] = other
        assert leaf(reference, wrong).outside == 1


def test_the_scale_of_the_output_widens_the_absolute_tolerance() -> None:
    reference = torch.cat([torch.zeros(1), torch.full((999,), 1000.0)])
    near = reference.clone()
    near[0] = 0.05
    assert leaf(reference, near).ok
    near[0] = 0.15
    assert not leaf(reference, near).ok


def test_a_problem_sets_its_own_tolerance() -> None:
    reference = torch.ones(10)
    assert leaf(reference, reference * 1.05, Tolerance(atol=0.05, rtol=0.05)).ok
    assert not leaf(reference, reference * (1 + 1e-6), Tolerance(atol=0, rtol=0)).ok


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_pieces_make_no_difference(elements: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    reference = torch.randn(257, generator=generator)
    output = reference + 1e-4 * torch.randn(257, generator=generator)
    whole, cut = leaf(reference, output), leaf(reference, output, piece=4 * elements)
    for name in ("ok", "outside", "max_abs_error", "max_rel_error", "worst_index", "worst_value"):
        assert getattr(whole, name) == getattr(cut, name)
    assert whole.rms_error == pytest.approx(cut.rms_error)


@settings(deadline=None)
@given(
    values=st.lists(
        st.tuples(*[st.sampled_from([0.0, -0.0, 1.0, 1.0001, -3.0, 1e-40, 1e300, math.inf, -math.inf, math.nan])] * 2),
        min_size=1,
        max_size=6,
    ),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.float16]),
    tolerance=st.sampled_from([0.0, 1e-4, 1.0, 1e308]),
)
def test_the_short_way_for_finite_numbers_gives_the_same_figures(
    values: list[tuple[float, float]], dtype: torch.dtype, tolerance: float
) -> None:
    got, wanted = (torch.tensor(column, dtype=torch.float64).to(dtype) for column in zip(*values, strict=True))
    expected = Expected.of(wanted, Tolerance(atol=tolerance, rtol=tolerance))
    kept = got.clone(), expected.leaves[0].flat.clone()
    (shorter,) = compare(expected, [(0, 0, flat_bytes(got))], 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Tally, "_add_finite", lambda *_: False)
        (longer,) = compare(expected, [(0, 0, flat_bytes(got))], 1)
    assert shorter.model_dump_json() == longer.model_dump_json()
    for now, before in zip((got, expected.leaves[0].flat), kept, strict=True):
        assert torch.equal(now.nan_to_num(nan=7.0), before.nan_to_num(nan=7.0))


def test_finite_numbers_go_the_short_way_in_any_number_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    got = wanted * 1.5
    data = flat_bytes(got)
    pieces = [(0, first, data[first : first + 1024]) for first in range(0, data.numel(), 1024)]
    expected = Expected.of(wanted, Tolerance())
    with monkeypatch.context() as patch:
        patch.setattr(_Tally, "_add_finite", lambda *_: False)
        (longer,) = compare(expected, [(0, 0, data)], 1)
    monkeypatch.setattr(_Tally, "_add_any", None)
    (shorter,) = compare(expected, pieces, 1)
    assert shorter.outside == longer.outside > 0
    assert shorter.worst_index == longer.worst_index
    assert shorter.rms_error == pytest.approx(longer.rms_error)


def test_missing_bytes_are_not_a_match() -> None:
    reference = torch.zeros(10)
    (report,) = compare(Expected.of(reference, DEFAULT), [(0, 0, flat_bytes(reference)[:36])], 0)
    assert not report.ok


def test_empty_outputs_match() -> None:
    assert leaf(torch.empty(0, 3), torch.empty(0, 3)).ok


def test_orders_of_memory_make_no_difference() -> None:
    reference = torch.randn(5, 6)
    assert leaf(reference, reference.t().contiguous().t()).ok


def test_the_worst_trial_counts() -> None:
    reference = torch.zeros(4) + 1
    good, bad = leaf(reference, reference), leaf(reference, reference + 1)
    assert worst([[good], [bad], [good]])[0] is bad


def claim(**changes: object) -> LeafClaim:
    said = {"kind": "torch.Tensor", "plain": True, "dtype": "float32", "shape": [2], "device": "cpu"} | changes
    return LeafClaim.model_validate(said)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"dtype": "float64"}, "output.dtype"),
        ({"shape": [1, 2]}, "output.shape"),
        ({"device": "cuda"}, "output.device"),
        ({"plain": False}, "output.tensor_type"),
        ({"kind": "torch.nn.parameter.Parameter"}, "output.tensor_type"),
    ],
)
def test_the_form_is_exact(changes: dict[str, object], code: str) -> None:
    expected = Expected.of(torch.zeros(2), DEFAULT)
    assert check_form(expected, {"leaf": 0}, [claim()], "cpu") is None
    error = check_form(expected, {"leaf": 0}, [claim(**changes)], "cpu")
    assert error is not None
    assert error.code == code


def test_a_parameter_may_come_back_where_the_reference_returns_one() -> None:
    expected = Expected.of(torch.nn.Parameter(torch.zeros(2)), DEFAULT)
    assert check_form(expected, {"leaf": 0}, [claim(kind="torch.nn.parameter.Parameter")], "cpu") is None
    assert check_form(expected, {"leaf": 0}, [claim()], "cpu") is None


@pytest.mark.parametrize("got", ["abc", "1e999", "inf", "nan", "-7.0"])
def test_a_number_that_is_none_or_infinite_is_told(got: str) -> None:
    for wanted in (2.5, math.inf):
        error = check_form(Expected.of(wanted, DEFAULT), {"float": got}, [], "cpu")
        assert (error is None) is (wanted == math.inf and got in ("inf", "1e999"))


def test_sizes_beyond_all_bounds_are_no_output() -> None:
    assert check_form(Expected.of(3, DEFAULT), {"int": "1e999"}, [], "cpu") is not None
    assert check_form(Expected.of(torch.Size([2]), DEFAULT), {"size": [10**30]}, [], "cpu") is not None


@pytest.mark.parametrize(("got", "ok"), [(2.5, True), (2.5001, True), (2.6, False), (math.nan, False)])
def test_plain_numbers_are_compared(got: float, ok: bool) -> None:
    expected = Expected.of((2.5, "mean"), DEFAULT)
    value = {"tuple": [{"float": repr(got)}, {"str": "mean"}]}
    assert (check_form(expected, value, [], "cpu") is None) is ok


def test_a_reference_that_returns_objects_is_refused() -> None:
    with pytest.raises(Unusable, match="object"):
        Expected.of([object()], DEFAULT)
