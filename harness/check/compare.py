"""Outputs against the reference's, piece by piece.

A leaf matches where every element holds |y - r| <= atol * scale + rtol * |r|, with `scale` the root mean square of the
reference's leaf, so that zeros do not pass for small outputs. Written so that NaN never passes; where the reference is
NaN or infinite the output must be the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from harness.load.spec import Tolerance
from harness.report import LeafReport
from harness.wire.transfer import TensorSpec, flat_bytes
from harness.wire.tree import Skeleton, TreeError, difference, paths, put_together, scalars, take_apart
from harness.workers.claims import LeafClaim

Judge = Callable[[object, object], "str | None"]
"""Takes an output and the reference's; what is wrong with it, or None."""

_DEFAULTS = {
    "float64": 1e-7,
    "complex128": 1e-7,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 1e-2,
    "complex32": 1e-2,
}
"""Both tolerances where a problem names none; 8-bit floats get 0.1, integers and bools 0."""


_PIECE = 1 << 26
"""Elements that are looked at together: a large output needs no second copy of itself."""
_SAID = 1000
"""Characters of what an author's check says."""
_SMALL = 0.1
"""Of the output's size: a larger error is no rounding."""
_FILL, _FILLS_MAX = 1e4, 4
"""A magnitude so many times the others' root mean square is a filling and no result; so many of them are seen."""


class Unusable(Exception):
    """The reference's own output can't be compared with anything."""


@dataclass(frozen=True)
class Leaf:
    """One tensor of the expected output."""

    path: str
    spec: TensorSpec
    flat: torch.Tensor
    """Its elements in the order of indices, one dimension; of complex ones the real and imaginary parts in turn."""
    scale: float
    atol: float
    rtol: float

    @property
    def parts(self) -> int:
        """Numbers that an element is made of: two for a complex one."""
        return 2 if self.spec.dtype.startswith("complex") else 1


@dataclass(frozen=True)
class Expected:
    """The reference's output, ready to be compared with."""

    skeleton: Skeleton
    leaves: list[Leaf]
    scalars: dict[str, object]
    parameter_leaves: frozenset[int]
    """Leaves that the reference itself returns as a Parameter."""
    judge: Judge | None = None
    """The author's own check, which decides instead of the tolerance where there is one."""

    @property
    def specs(self) -> list[TensorSpec]:
        """What room the leaves take."""
        return [leaf.spec for leaf in self.leaves]

    @property
    def nbytes(self) -> int:
        """Bytes of all leaves."""
        return sum(spec.nbytes for spec in self.specs)

    def value(self) -> object:
        """The output itself again, in copies."""
        leaves = []
        for leaf in self.leaves:
            flat = torch.view_as_complex(leaf.flat.view(-1, 2)) if leaf.parts == 2 else leaf.flat
            leaves.append(flat.clone().view(leaf.spec.shape))
        return put_together(self.skeleton, leaves)

    @classmethod
    def of(cls, value: object, tolerance: Tolerance, judge: Judge | None = None) -> Expected:
        """Take the reference's output. Raises Unusable for a type that has no place in an output."""
        skeleton, tensors = take_apart(value, sort_keys=True)
        _refuse_others(skeleton)
        places = paths(skeleton, "output")
        leaves = []
        for index, tensor in enumerate(tensors):
            if tensor.layout is not torch.strided:
                raise Unusable(f"{places[index]} is a {tensor.layout} tensor; only dense ones can be compared")
            dtype = str(tensor.dtype).removeprefix("torch.")
            # A copy: the reference may return memory that its next call writes to. Complex numbers are two real ones.
            flat = flat_bytes(tensor).clone().view(tensor.dtype)
            flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
            own = tolerance.for_dtype(dtype)
            fallback = _default_tolerance(dtype)
            leaves.append(
                Leaf(
                    path=places[index],
                    spec=TensorSpec(dtype, tuple(tensor.shape)),
                    flat=flat,
                    # Of complex numbers the magnitude counts, which is that of both parts together.
                    scale=_scale(flat) * (2**0.5 if tensor.is_complex() else 1.0) if flat.is_floating_point() else 0.0,
                    atol=fallback if own.atol is None else own.atol,
                    rtol=fallback if own.rtol is None else own.rtol,
                )
            )
        parameters = frozenset(i for i, tensor in enumerate(tensors) if type(tensor) is torch.nn.Parameter)
        return cls(skeleton, leaves, scalars(skeleton, "output"), parameters, judge)


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
    try:
        found = scalars(value, "output")
    except TreeError as error:
        return FormError("output.structure", f"The output can't be read: {str(error)[:200]}.")
    for path, wanted_value in expected.scalars.items():
        got_value = found.get(path)
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
    whole = None if expected.judge is None else _Whole(expected)
    for index, first, data in pieces:
        tallies[index].add(first, data)
        if whole is not None:
            whole.add(index, first, data)
    reports = [tally.report(trial) for tally in tallies]
    if whole is None or expected.judge is None:
        return reports
    said = expected.judge(whole.value(), expected.value()) if whole.complete else "a part of it is missing"
    return [_judged(report, said) for report in reports]


class _Whole:
    """An output put together again, in memory of our own, for a check that wants all of it."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._seen = 0
        device = expected.leaves[0].flat.device if expected.leaves else torch.device("cpu")
        self._bytes = [torch.empty(spec.nbytes, dtype=torch.uint8, device=device) for spec in expected.specs]

    def add(self, index: int, first: int, data: torch.Tensor) -> None:
        self._bytes[index][first : first + data.numel()].copy_(data)
        self._seen += data.numel()

    @property
    def complete(self) -> bool:
        return self._seen == self._expected.nbytes

    def value(self) -> object:
        leaves = []
        for spec, data in zip(self._expected.specs, self._bytes, strict=True):
            dtype = getattr(torch, spec.dtype)
            leaves.append((data != 0 if dtype is torch.bool else data.view(dtype)).view(spec.shape))
        return put_together(self._expected.skeleton, leaves)


def _judged(report: LeafReport, said: str | None) -> LeafReport:
    """A leaf whose figures are shown, and decide nothing."""
    reading = f"The problem's own check {'accepts' if said is None else 'refuses'} it."
    return report.model_copy(update={"ok": said is None, "own_check": (said or "")[:_SAID], "reading": reading})


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
            # Whatever is not zero is true, as it is to a kernel that writes 0xff.
            got, want = data != 0, leaf.flat[first : first + data.numel()]
        else:
            got = data.view(leaf.flat.dtype)
            want = leaf.flat[first : first + got.numel()]
        self._seen += got.numel()
        if not (want.dtype.is_floating_point and got.numel() and self._add_finite(first, got, want)):
            self._add_any(first, got, want)

    def _add_finite(self, first: int, got: torch.Tensor, want: torch.Tensor) -> bool:
        """Take a piece in which all is finite; False where that is not so, and nothing was taken.

        The same figures as those of `_add_any`, in a third of the steps, each of which takes longer than its work."""
        leaf = self._leaf
        y, r = got.to(torch.float64, copy=True), want.to(torch.float64, copy=True)
        error, size = y.sub_(r).abs_(), r.abs_()
        allowed = (size * leaf.rtol).add_(leaf.atol * leaf.scale)
        largest, at = (error - allowed).max(0)
        # No element is larger than infinity, and what is not a number makes a maximum that is none.
        figures = [
            largest,
            at,
            (error > allowed).sum(),
            error.square().sum(),
            error.max(),
            size.max(),
            torch.where(size > 0, error / size, 0.0).max(),
        ]
        excess, index, outside, square_sum, max_abs, biggest, max_rel = _read(figures)
        most_allowed = biggest * leaf.rtol + leaf.atol * leaf.scale
        if not all(map(math.isfinite, (excess, square_sum, max_abs, most_allowed, max_rel))):
            return False
        self._take(first, got, want, int(outside), got.numel(), square_sum, max_abs, max_rel, excess, int(index))
        return True

    def _add_any(self, first: int, got: torch.Tensor, want: torch.Tensor) -> None:
        """Take any piece."""
        leaf = self._leaf
        y, r = got.to(torch.float64), want.to(torch.float64)
        # Integers are told apart as integers: as doubles, large ones would run together.
        whole = not want.dtype.is_floating_point
        exact = (got == want) if whole else (y == r) | (torch.isnan(y) & torch.isnan(r))
        error = torch.where(exact, 0.0, (y - r).abs())
        size = r.abs()
        allowed = leaf.atol * leaf.scale + leaf.rtol * size
        close = error <= allowed
        if whole:
            close &= exact | (allowed > 0)
        # A difference or a tolerance that is not a number says nothing: then only the same will do.
        finite = torch.isfinite(error)
        ok = torch.where(torch.isfinite(size) & torch.isfinite(allowed) & finite, close, exact)
        counted = torch.where(finite, error, 0.0)
        relative = torch.where(finite & torch.isfinite(size) & (size > 0), counted / size, 0.0)
        # Where it is farthest out; NaN and infinity are farther than any number unless they are right.
        known = finite & torch.isfinite(allowed)
        beyond = torch.where(known, error - allowed, torch.where(ok, -math.inf, math.inf))
        at = beyond.argmax()
        figures = [(~ok).sum(), finite.sum(), counted.square().sum(), counted.max(), relative.max(), beyond[at], at]
        outside, count, square_sum, max_abs, max_rel, excess, index = _read(figures)
        self._take(first, got, want, int(outside), int(count), square_sum, max_abs, max_rel, excess, int(index))

    def _take(
        self,
        first: int,
        got: torch.Tensor,
        want: torch.Tensor,
        outside: int,
        finite: int,
        square_sum: float,
        max_abs: float,
        max_rel: float,
        excess: float,
        index: int,
    ) -> None:
        """Figures of a piece: elements that are outside and that are finite, of their errors the sum of squares and the
        largest, the latter also relative; and the element that is farthest out, with its error beyond the tolerance."""
        self._outside += outside
        self._finite += finite
        self._square_sum += square_sum
        self._max_abs = math.nan if finite < got.numel() else max(self._max_abs, max_abs, key=_nan_last)
        self._max_rel = max(self._max_rel, max_rel)
        if self._worst is None or excess > self._worst_excess:
            self._worst_excess = excess
            self._worst = (first + index, got[index].item(), want[index].item())

    def report(self, trial: int) -> LeafReport:
        leaf, count = self._leaf, self._leaf.flat.numel()  # in parts: a complex element can be half wrong
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
            worst_index=None if index is None else _unravel(index // leaf.parts, leaf.spec.shape),
            worst_value=_plain(value),
            worst_expected=_plain(wanted),
            worst_trial=trial,
        )
        return leaf_report.model_copy(update={"reading": reading(leaf_report)})


def _read(figures: Sequence[torch.Tensor]) -> list[float]:
    """In one transfer: each would wait for the device on its own."""
    read: list[float] = torch.stack([figure.to(torch.float64) for figure in figures]).tolist()
    return read


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
        if leaf.max_abs_error > _SMALL * leaf.scale:
            part = f"{leaf.max_abs_error / leaf.scale:.2g} of the output's size"
            return f"{share} are outside, some by {part}: these are another result, not rounding. See where they lie."
        return f"{share} are outside, by little beside the output's size: lost accuracy, or a constant slightly off."
    allowed = leaf.atol * leaf.scale
    if (leaf.max_rel_error or 0) > 10 * leaf.rtol and leaf.max_abs_error <= max(allowed, 1e-300):
        return (
            "The large relative error belongs to elements near zero, whose absolute error is "
            f"{leaf.max_abs_error:.2g} beside an output of size {leaf.scale:.2g}: harmless."
        )
    return "All elements are within tolerance."


def _default_tolerance(dtype: str) -> float:
    return 0.1 if dtype.startswith("float8") else _DEFAULTS.get(dtype, 0.0)


def _scale(flat: torch.Tensor) -> float:
    """The root mean square of the finite elements, without values that only fill: a mask of -1e9, the smallest float.

    With such a value in the mean any answer would do elsewhere. It is taken out as long as the largest magnitude is
    _FILL times the root mean square of the smaller ones.
    """
    flat = flat.float() if flat.itemsize == 1 else flat  # what can't be compared on every device
    finite = torch.isfinite(flat) if not math.isfinite(_largest(flat)) else None
    if finite is not None:
        flat = flat[finite]
    largest = _largest(flat)
    for _ in range(_FILLS_MAX):
        smaller = [torch.where(piece.abs() < largest, piece, 0.0) for piece in flat.split(_PIECE)]
        second = max((_largest(piece) for piece in smaller), default=0.0)
        count = sum(int((piece != 0).sum()) for piece in smaller)
        rest = _root_mean_square(smaller, second, count)
        if not 0.0 < _FILL * rest < largest:
            break
        flat = flat[flat.abs() < largest]
        largest = second
    return _root_mean_square(flat.split(_PIECE), largest, flat.numel())


def _largest(flat: torch.Tensor) -> float:
    """The largest magnitude; NaN or infinite if an element is."""
    return (
        float(torch.linalg.vector_norm(flat.float() if flat.itemsize == 1 else flat, math.inf)) if flat.numel() else 0.0
    )


def _root_mean_square(pieces: Sequence[torch.Tensor], largest: float, count: int) -> float:
    """Of `count` elements whose magnitudes are at most `largest`: squares of doubles would overflow without it."""
    if not largest or not count:
        return 0.0
    total = 0.0
    for piece in pieces:
        unit = largest if piece.dtype is torch.float64 else 1.0
        wide = piece.float() if piece.itemsize == 1 else piece
        total += float(torch.linalg.vector_norm(wide / unit if unit != 1.0 else wide, dtype=torch.float64)) ** 2
    return math.sqrt(total / count) * (largest if pieces[0].dtype is torch.float64 else 1.0)


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
    if isinstance(want, complex) and isinstance(got, complex):
        return _scalar_matches(got.real, want.real) and _scalar_matches(got.imag, want.imag)
    if isinstance(want, float) and isinstance(got, float):
        if math.isfinite(want) and math.isfinite(got):
            return abs(got - want) <= _DEFAULTS["float32"] * abs(want)
        return got == want or (math.isnan(want) and math.isnan(got))
    return type(got) is type(want) and got == want


def _refuse_others(skeleton: Skeleton) -> None:
    (kind, content), *_ = skeleton.items()
    if kind == "other":
        raise Unusable(f"the reference returns a value of type {content}, which can't be compared")
    if kind in ("tuple", "list", "dict"):
        for item in content:
            _refuse_others(item[1] if kind == "dict" else item)
