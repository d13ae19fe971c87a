"""Outputs against the reference's, piece by piece.

A leaf matches where every element holds |y - r| <= atol * scale + rtol * |r|, with `scale` the root mean square of the
reference's leaf, so that zeros do not pass for small outputs. Written so that NaN never passes; where the reference is
NaN or infinite the output must be the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from harness.claims import LeafClaim
from harness.report import LeafReport
from harness.spec import Tolerance
from harness.transfer import TensorSpec, flat_bytes
from harness.tree import Skeleton, difference, paths, scalars, take_apart

_DEFAULTS = {
    "float64": 1e-7,
    "complex128": 1e-7,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 1e-2,
}
"""Both tolerances where a problem names none; 8-bit floats get 0.1, integers and bools 0."""


class Unusable(Exception):
    """The reference's own output can't be compared with anything."""


@dataclass(frozen=True)
class Leaf:
    """One tensor of the expected output."""

    path: str
    spec: TensorSpec
    flat: torch.Tensor
    """Its elements in the order of indices, one dimension."""
    scale: float
    atol: float
    rtol: float


@dataclass(frozen=True)
class Expected:
    """The reference's output, ready to be compared with."""

    skeleton: Skeleton
    leaves: list[Leaf]
    scalars: dict[str, object]
    parameter_leaves: frozenset[int]
    """Leaves that the reference itself returns as a Parameter."""

    @property
    def specs(self) -> list[TensorSpec]:
        """What room the leaves take."""
        return [leaf.spec for leaf in self.leaves]

    @property
    def nbytes(self) -> int:
        """Bytes of all leaves."""
        return sum(spec.nbytes for spec in self.specs)

    @classmethod
    def of(cls, value: object, tolerance: Tolerance) -> Expected:
        """Take the reference's output. Raises Unusable for a type that has no place in an output."""
        skeleton, tensors = take_apart(value)
        _refuse_others(skeleton)
        places = paths(skeleton, "output")
        leaves = []
        for index, tensor in enumerate(tensors):
            if tensor.layout is not torch.strided:
                raise Unusable(f"{places[index]} is a {tensor.layout} tensor; only dense ones can be compared")
            dtype = str(tensor.dtype).removeprefix("torch.")
            own = tolerance.for_dtype(dtype)
            fallback = _default_tolerance(dtype)
            leaves.append(
                Leaf(
                    path=places[index],
                    spec=TensorSpec(dtype, tuple(tensor.shape)),
                    flat=flat_bytes(tensor).view(tensor.dtype),
                    scale=_root_mean_square(tensor),
                    atol=fallback if own.atol is None else own.atol,
                    rtol=fallback if own.rtol is None else own.rtol,
                )
            )
        parameters = frozenset(i for i, tensor in enumerate(tensors) if type(tensor) is torch.nn.Parameter)
        return cls(skeleton, leaves, scalars(skeleton, "output"), parameters)


@dataclass(frozen=True)
class FormError:
    """What came back has another form than the reference's output."""

    code: str
    message: str
    evidence: dict[str, object] = field(default_factory=dict)


def check_form(expected: Expected, value: Skeleton, leaves: Sequence[LeafClaim], device: str) -> FormError | None:
    """The first thing that is wrong with an output before any element is looked at; None when nothing is.

    All of it is a claim. A worker that lies here gains nothing: the bytes are compared all the same.
    """
    if where := difference(expected.skeleton, value, "output"):
        return FormError(
            "output.structure", f"The output has another structure: {where}; return what the reference returns."
        )
    if len(leaves) != len(expected.leaves):
        return FormError(
            "output.structure",
            f"The output has {len(leaves)} tensors; return {len(expected.leaves)}, as the reference does.",
        )
    for index, (leaf, claim) in enumerate(zip(expected.leaves, leaves, strict=True)):
        allowed = {"torch.Tensor"} | ({"torch.nn.parameter.Parameter"} if index in expected.parameter_leaves else set())
        if not claim.plain or claim.kind not in allowed:
            return FormError(
                "output.tensor_type",
                f"{leaf.path} is a {claim.kind}; return a plain torch.Tensor.",
                {"path": leaf.path, "type": claim.kind},
            )
        got = {"dtype": claim.dtype, "shape": list(claim.shape), "device": claim.device}
        want = {"dtype": leaf.spec.dtype, "shape": list(leaf.spec.shape), "device": device}
        for name, wanted in want.items():
            if got[name] != wanted:
                return FormError(
                    f"output.{name}",
                    f"{leaf.path} has {name} {got[name]}; return {name} {wanted}, as the reference does.",
                    {"path": leaf.path, "got": got[name], "expected": wanted},
                )
    for path, wanted_value in expected.scalars.items():
        got_value = scalars(value, "output")[path]
        if not _scalar_matches(got_value, wanted_value):
            return FormError(
                "output.values",
                f"{path} is {str(got_value)[:80]}; the reference returns {str(wanted_value)[:80]}.",
                {"path": path, "got": str(got_value)[:80], "expected": str(wanted_value)[:80]},
            )
    return None


def compare(expected: Expected, pieces: Iterable[tuple[int, int, torch.Tensor]], trial: int) -> list[LeafReport]:
    """Compare every leaf; `pieces` are (leaf number, first byte, bytes) as they come from the other side."""
    tallies = [_Tally(leaf) for leaf in expected.leaves]
    for index, first, data in pieces:
        tallies[index].add(first, data)
    return [tally.report(trial) for tally in tallies]


def worst(reports: Sequence[list[LeafReport]]) -> list[LeafReport]:
    """Of several comparisons of the same leaves the worst of each: a failed one, then the larger error."""

    def badness(leaf: LeafReport) -> tuple[bool, float, float]:
        errors = leaf.max_abs_error if leaf.max_abs_error is not None else -1.0
        return (not leaf.ok, leaf.fraction_outside or 0.0, math.inf if math.isnan(errors) else errors)

    return [max(same, key=badness) for same in zip(*reports, strict=True)]


class _Tally:
    """Running figures of one leaf."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._seen = 0
        self._outside = 0
        self._max_abs = self._max_rel = 0.0
        self._square_sum = 0.0
        self._finite = 0
        self._worst_excess = -math.inf
        self._worst: tuple[int, object, object] | None = None

    def add(self, first_byte: int, data: torch.Tensor) -> None:
        leaf = self._leaf
        first = first_byte // leaf.flat.element_size()
        if leaf.flat.dtype is torch.bool:
            got, want = data, leaf.flat.view(torch.uint8)[first : first + data.numel()]
        else:
            got = data.view(leaf.flat.dtype)
            want = leaf.flat[first : first + got.numel()]
        self._seen += got.numel()
        wide = _wide(got.dtype)
        y, r = got.to(wide), want.to(wide)
        # Integers are told apart as integers: as doubles, large ones would run together.
        whole = not want.dtype.is_floating_point and not want.dtype.is_complex
        exact = (got == want) if whole else (y == r) | (torch.isnan(y) & torch.isnan(r))
        error = torch.where(exact, 0.0, (y - r).abs())
        size = r.abs()
        allowed = leaf.atol * leaf.scale + leaf.rtol * size
        close = error <= allowed
        if whole:
            close &= exact | (allowed > 0)
        ok = torch.where(torch.isfinite(size), close, exact)
        finite = torch.isfinite(error)
        counted = torch.where(finite, error, 0.0)
        relative = torch.where(finite & torch.isfinite(size) & (size > 0), counted / size, 0.0)
        # Where it is farthest out; NaN and infinity are farther than any number unless they are right.
        beyond = torch.where(finite, error - allowed, torch.where(ok, -math.inf, math.inf)).nan_to_num(math.inf)
        at = beyond.argmax()
        # One transfer for all figures: each would wait for the device on its own.
        figures = [(~ok).sum(), finite.sum(), counted.square().sum(), counted.max(), relative.max(), beyond[at], at]
        outside, count, square_sum, max_abs, max_rel, excess, index = torch.stack(
            [figure.to(torch.float64) for figure in figures]
        ).tolist()
        self._outside += int(outside)
        self._finite += int(count)
        self._square_sum += square_sum
        self._max_abs = math.nan if count < got.numel() else max(self._max_abs, max_abs, key=_nan_last)
        self._max_rel = max(self._max_rel, max_rel)
        if self._worst is None or excess > self._worst_excess:
            self._worst_excess = excess
            self._worst = (first + int(index), got[int(index)].item(), want[int(index)].item())

    def report(self, trial: int) -> LeafReport:
        leaf, count = self._leaf, self._leaf.flat.numel()
        complete = self._seen == count
        index, value, wanted = self._worst or (None, None, None)
        leaf_report = LeafReport(
            path=leaf.path,
            shape=list(leaf.spec.shape),
            dtype=leaf.spec.dtype,
            ok=complete and self._outside == 0,
            atol=leaf.atol,
            rtol=leaf.rtol,
            scale=leaf.scale,
            max_abs_error=self._max_abs,
            max_rel_error=self._max_rel,
            rms_error=math.sqrt(self._square_sum / self._finite) if self._finite else 0.0,
            fraction_outside=self._outside / count if count else 0.0,
            outside=self._outside,
            worst_index=None if index is None else _unravel(index, leaf.spec.shape),
            worst_value=_plain(value),
            worst_expected=_plain(wanted),
            worst_trial=trial,
        )
        return leaf_report.model_copy(update={"reading": reading(leaf_report)})


def reading(leaf: LeafReport) -> str:
    """One sentence on what a leaf's figures mean together."""
    if leaf.max_abs_error is None or leaf.scale is None:
        return ""
    share = f"{leaf.outside} of {math.prod(leaf.shape)} elements ({100 * (leaf.fraction_outside or 0):.3g} %)"
    if not leaf.ok:
        if math.isnan(leaf.max_abs_error):
            return f"{share} are outside, with NaN or infinity where the reference has a number or the other way round."
        if (leaf.fraction_outside or 0) < 0.01:
            return f"Only {share} are outside: look at edges, tails and rare cases rather than at the formula."
        if leaf.rms_error is not None and leaf.rms_error > 0.5 * leaf.scale:
            return f"{share} are outside, with errors as large as the output itself: a different result, not rounding."
        return f"{share} are outside, by little beside the output's size: lost accuracy, or a constant slightly off."
    allowed = leaf.atol * leaf.scale
    if (leaf.max_rel_error or 0) > 10 * leaf.rtol and leaf.max_abs_error <= max(allowed, 1e-300):
        return (
            "The large relative error belongs to elements near zero, whose absolute error is "
            f"{leaf.max_abs_error:.2g} beside an output of size {leaf.scale:.2g}: harmless."
        )
    return "All elements are within tolerance."


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def _default_tolerance(dtype: str) -> float:
    return 0.1 if dtype.startswith("float8") else _DEFAULTS.get(dtype, 0.0)


def _root_mean_square(tensor: torch.Tensor) -> float:
    """In pieces, so that a large tensor needs no second copy of itself in double precision."""
    if not tensor.numel() or tensor.dtype is torch.bool:
        return 0.0
    flat = flat_bytes(tensor).view(tensor.dtype)
    total, finite = 0.0, 0
    for piece in flat.split(1 << 24):
        wide = piece.to(_wide(piece.dtype)).abs()
        mask = torch.isfinite(wide)
        total += float(torch.where(mask, wide, torch.zeros_like(wide)).square().sum())
        finite += int(mask.sum())
    return math.sqrt(total / finite) if finite else 0.0


def _nan_last(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def _unravel(index: int, shape: tuple[int, ...]) -> list[int]:
    place = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.append(rest)
    return place[::-1]


def _plain(value: object) -> float | str | None:
    if value is None or isinstance(value, complex):
        return None if value is None else str(value)
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else str(number)


def _scalar_matches(got: object, want: object) -> bool:
    if isinstance(want, float) and isinstance(got, float):
        close = abs(got - want) <= _DEFAULTS["float32"] * abs(want)
        return close or got == want or (math.isnan(want) and math.isnan(got))
    return got == want


def _refuse_others(skeleton: Skeleton) -> None:
    (kind, content), *_ = skeleton.items()
    if kind == "other":
        raise Unusable(f"the reference returns a value of type {content}, which can't be compared")
    if kind in ("tuple", "list", "dict"):
        for item in content:
            _refuse_others(item[1] if kind == "dict" else item)
