"""From three results of the same call, ours, the reference's and a float64 one, to how accurate ours is.

    blocks     [.... ....] [.... ....] ...      some thousand elements each, so that one odd element decides nothing
    error      c = ours - wide,  r = reference - wide,  f = half a step of the dtype
    ratio      rms(c) / max(rms(r), f / sqrt 3)
    likeness   correlation of c with d = coarse - wide, the errors that a coarser arithmetic makes on the same numbers

A ratio alone proves nothing: sums in another order make it ten, a plain loop over a long sum more. But the errors of an
honest fp32 computation do not depend on the bits that tf32 drops from the operands, so they don't go together with d.
Size proves something where no order of summation comes to it (sums.py).
docs/precision.md has the derivation and the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from harness.audit.findings import LeafPrecision
from harness.audit.formats import MANTISSA, half_step
from harness.audit.probes import OWN
from harness.audit.wide import Where
from harness.check.compare import Expected

BLOCKS, BLOCK = 128, 2048
"""At most so many blocks of so many elements are looked at: 2 MiB of float64 whatever the output's size."""
LEAST = 256
"""Elements below which nothing can be said."""

SUSPICIOUS = 8.0
"""A ratio up to this needs no explanation. An honest plain loop over 4096 products comes to 10, tf32 to 68 there."""
SUSPICIOUS_BESIDE = 3.0
"""The same where errors of a coarser arithmetic are allowed: from tf32 to bf16 it is just a factor of 8."""
LIKENESS = 0.25
"""Correlation that is no chance: of 256 honest errors, one block in 30000 comes to it, and a tenth of all have to."""
LIKENESS_OF_SUMS = 0.75
"""The same for products of inputs that have a common sign: a plain sum of 16384 elements comes to 0.5 to 0.7."""
RELATIVE_SIZE = 0.25
"""Errors at least so large beside those of the mildest coarser arithmetic are no fp32 errors where sums are benign."""
BEYOND_SUMS = 4.0
"""Errors so many times those of a plain sum, the least accurate honest one, are of no sum in any order."""
_LEAST_SIZE = 0.1
"""The same beside those of the arithmetic that they resemble: it may be used for a part of the work only."""
_MOST_SIZE = 30.0
"""And at most: what is left out altogether may by chance look like anything."""
_QUANTILE = 0.9
_SHARE = 0.1
"""Share of the blocks that have to show it: not all rows need be computed alike."""
_FAR = 1e4
"""Elements so many times the median magnitude are fillings or outliers, whose own steps are no measure of the rest."""
_CLIP = 3.0
_CLEAR = 0.5
"""A likeness that leaves no question."""
_CHANCES = 5.0
"""Standard deviations of the likeness of random errors that a likeness has to reach."""
_ALMOST = 1 - 1e-12
_SAME = 0.03
"""Two likenesses that are no farther apart than this don't tell one arithmetic from the other."""


@dataclass(frozen=True)
class Sample:
    """Which elements of each leaf are looked at: by leaf number, indices as [blocks, elements of a block]."""

    places: dict[int, torch.Tensor]

    @classmethod
    def draw(cls, expected: Expected, seed: int) -> Sample:
        """Blocks at random, of each floating-point leaf with enough elements."""
        generator = torch.Generator().manual_seed(seed)
        places = {}
        for number, leaf in enumerate(expected.leaves):
            total = leaf.flat.numel()
            if not leaf.flat.is_floating_point() or total < LEAST:
                continue
            size = min(BLOCK, total)
            if total <= BLOCKS * BLOCK:
                count = total // size
                size = total // count
                starts = torch.arange(count) * size
            else:
                starts = torch.randint(total - size + 1, (BLOCKS,), generator=generator)
            index = starts[:, None] + torch.arange(size)
            places[number] = index.to(leaf.flat.device)
        return cls(places)

    def on(self, device: torch.device) -> Sample:
        """The same places on another device."""
        return Sample({number: index.to(device) for number, index in self.places.items()})

    def of(self, flats: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
        """The chosen elements of leaves that are flat, in float64."""
        return {number: flats[number][index].to(torch.float64) for number, index in self.places.items()}


class Collected:
    """The chosen elements of an output that comes in pieces."""

    def __init__(self, sample: Sample, expected: Expected) -> None:
        self._sample, self._expected = sample, expected
        self.values = {
            number: torch.zeros(index.shape, dtype=torch.float64, device=index.device)
            for number, index in sample.places.items()
        }

    def on(self, device: torch.device) -> Collected:
        """What was taken so far, on another device."""
        other = Collected(Sample({}), self._expected)
        other.values = {number: values.to(device) for number, values in self.values.items()}
        return other

    def add(self, number: int, first_byte: int, data: torch.Tensor) -> None:
        """Take what is in a piece; `data` are its bytes."""
        if number not in self.values:
            return
        flat = data.view(self._expected.leaves[number].flat.dtype)
        index = self._sample.places[number] - first_byte // flat.element_size()
        within = (index >= 0) & (index < flat.numel())
        values = self.values[number]
        values[within] = flat[index[within]].to(torch.float64)


@dataclass(frozen=True)
class Coarse:
    """Errors that one coarser arithmetic makes at the chosen elements."""

    name: str
    """As in formats.MANTISSA."""
    where: Where | None
    """What was rounded: operands of products, all results, or (None) inputs and parameters."""
    errors: dict[int, torch.Tensor]
    """By leaf number."""


@dataclass(frozen=True)
class Runs:
    """Further runs of the reference on one kind of input, made when they are asked for."""

    coarser: Callable[[], Iterable[Coarse]]
    """Coarser arithmetics, mildest first."""
    noise: Callable[[Coarse], Iterable[Coarse]]
    """Random errors in the places where an arithmetic has its own."""
    plain_sums: Callable[[], Iterable[dict[int, torch.Tensor]]]
    """Errors of the least accurate honest way, by leaf number, several times; none where that isn't known."""
    centred: bool
    """Whether the inputs have no common sign. Where they have one, a plain sum rounds what it adds to steps of its own
    size, and drops the very bits that tf32 drops, without having lost any precision that it could have kept."""


@dataclass(frozen=True)
class LeafErrors:
    """The errors of one leaf on one kind of input, [blocks, elements] each, NaN where nothing is to be said."""

    path: str
    kind: str
    ours: torch.Tensor
    reference: torch.Tensor
    floor: torch.Tensor
    """Of each block: what rounding a right result costs, root mean square."""

    @classmethod
    def of(
        cls,
        path: str,
        kind: str,
        dtype: str,
        ours: torch.Tensor,
        reference: torch.Tensor,
        wide: torch.Tensor,
    ) -> LeafErrors:
        """All three as chosen elements in float64, of a leaf of type `dtype`."""
        usable = torch.isfinite(wide) & torch.isfinite(reference) & torch.isfinite(ours)
        nothing = torch.full_like(wide, torch.nan)
        size = torch.where(usable, wide.abs(), nothing)
        size = torch.where(size > 0, size, nothing)  # a zero can be hit exactly: it says nothing about the others
        usual = size.nanmedian(dim=1, keepdim=True).values
        step = half_step(torch.where(usable, wide, 0.0), dtype)
        near = usable & (size <= _FAR * usual)
        block = _rms(torch.where(near, step, nothing)).nan_to_num()
        # A row of nearly nothing beside others is not held to its own steps: nobody's result depends on them.
        whole = half_step(_rms(torch.where(near, size, nothing)).nan_to_num().max().reshape(1), dtype) / 128
        return cls(
            path,
            kind,
            torch.where(usable, ours - wide, nothing),
            torch.where(usable, reference - wide, nothing),
            torch.maximum(block, whole) / 3**0.5,
        )

    def base(self, allowed: torch.Tensor | None) -> torch.Tensor:
        """Of each block the error that needs no explanation; `allowed` are errors that the problem permits."""
        base = torch.maximum(_rms(self.reference), self.floor)
        return base if allowed is None else torch.maximum(base, _rms(allowed))

    def ratios(self, allowed: torch.Tensor | None = None) -> torch.Tensor:
        """Of each block; NaN where it has nothing to be looked at."""
        return _rms(self.ours) / self.base(allowed)


def judge_leaf(number: int, errors: LeafErrors, allowed: torch.Tensor | None, runs: Runs) -> LeafPrecision:
    """Say what the errors of a leaf show. `runs` are asked only where the ratio calls for an explanation, since each is
    a run of the reference."""
    base, ratios = errors.base(allowed), errors.ratios(allowed)
    known = ratios[~ratios.isnan()]
    ratio = float(known.quantile(_QUANTILE)) if known.numel() else 0.0
    found = LeafPrecision(
        path=errors.path,
        inputs=errors.kind,
        ratio=ratio,
        error=_overall(errors.ours),
        reference_error=max(_overall(errors.reference), float(errors.floor.median())),
    )
    suspicious = SUSPICIOUS if allowed is None else SUSPICIOUS_BESIDE
    if ratio <= suspicious:
        return found
    ours, relative = _rms(errors.ours), None
    products: Coarse | None = None
    alike: dict[str, float] = {}
    nearest: tuple[float, Coarse] | None = None
    for coarse in runs.coarser():
        if any(value >= _CLEAR and MANTISSA[coarse.name] < MANTISSA[name] for name, value in alike.items()):
            break  # a coarser one can't be more like it
        theirs = coarse.errors[number]
        if coarse.where == "products" and products is None:
            products = coarse
        size = _rms(torch.where(errors.ours.isnan(), torch.nan, theirs))
        beside = ours / size
        telling = (size > base) & beside.isfinite()
        if not bool(telling.any()):
            continue  # these numbers lose nothing in that arithmetic
        if coarse.where == "results":
            relative = max(relative or 0.0, float(beside[telling].median()))
        together = _together(errors.ours, theirs)
        best = float(together.quantile(_QUANTILE))
        if nearest is None or best > nearest[0]:
            nearest = best, coarse
        least = LIKENESS if runs.centred else LIKENESS_OF_SUMS if coarse.where == "products" else 1.1
        like = (together >= least) & (beside >= _LEAST_SIZE) & (beside <= _MOST_SIZE) & (ratios > suspicious)
        if int(like.sum()) >= max(1, _SHARE * known.numel()):
            alike[coarse.name] = max(alike.get(coarse.name, 0.0), best)
    if alike and nearest is not None and not _beyond_chance(nearest[0], errors.ours, runs.noise(nearest[1]), number):
        alike = {}
    beyond = None if alike or products is None else _beyond_sums(errors, products.errors[number], runs, number)
    # Some can't be told apart by what they do to these numbers: tf32 and fp16 keep the same bits.
    top = max(alike.values(), default=0.0)
    names = [name for name, value in alike.items() if value > top - _SAME]
    return found.model_copy(
        update={
            "resembles": " or ".join(names) or None,
            "likeness": round(max(0.0, top or (nearest[0] if nearest else 0.0)), 4),
            "relative_size": relative,
            "beyond_sums": beyond,
            "below": bool(names) or (beyond is not None and beyond > BEYOND_SUMS),
        }
    )


def _beyond_sums(errors: LeafErrors, products: torch.Tensor, runs: Runs, number: int) -> float | None:
    """How large the errors are beside those of plain sums, in the blocks in which they are of the size that products in
    the mildest coarser arithmetic (`products`: its errors) have; a tenth of the blocks have at least that. None where
    too few are so large, or where nothing is known of plain sums.

    By the error that nine of ten elements stay below: some that are far larger than the rest have a size by chance.
    """
    ours, reference = _most(errors.ours), _most(errors.reference)
    least = torch.maximum(reference, errors.floor * 3**0.5)
    coarse = _most(torch.where(errors.ours.isnan(), torch.nan, products))
    large = (ours >= RELATIVE_SIZE * coarse) & (coarse > least)
    if errors.kind != OWN:
        # Who relies on the range of the problem's own inputs is wrong here by any amount, and no less precise.
        large &= ours <= _MOST_SIZE * coarse
    enough = max(1, math.ceil(_SHARE * int((~ours.isnan()).sum())))
    if int(large.sum()) < enough:
        return None
    draws = [_most(torch.where(errors.ours.isnan(), torch.nan, drawn[number])) for drawn in runs.plain_sums()]
    if not draws:
        return None
    beyond = ours / torch.stack([least, *draws]).amax(dim=0)
    known = beyond[large & beyond.isfinite()].sort(descending=True).values
    return float(known[enough - 1]) if known.numel() >= enough else None


def _beyond_chance(likeness: float, ours: torch.Tensor, noise: Iterable[Coarse], number: int) -> bool:
    """Whether errors of the same size and way through the computation, but of random bits, are far less alike.

    Errors that run on from element to element, as in a running sum, go together with any others of that kind by chance.
    Fisher's transformation makes the spread of such chances the same near 0 and near 1.
    """
    by_chance = [
        math.atanh(min(_ALMOST, max(-_ALMOST, float(_together(ours, coarse.errors[number]).quantile(_QUANTILE)))))
        for coarse in noise
    ]
    if not by_chance:
        return False
    spread = math.sqrt(sum(value**2 for value in by_chance) / len(by_chance))
    return math.atanh(min(_ALMOST, likeness)) >= _CHANCES * spread


def with_sizes(leaves: Sequence[LeafPrecision]) -> list[LeafPrecision]:
    """Mark leaves whose errors resemble nothing known and are too large all the same.

    Both on the problem's own inputs and on inputs on which sums are benign: a plain loop over a very long sum of
    positive numbers reaches tf32's errors on the first alone, and what only ever works on the problem's kind of input
    fails on the second alone.
    """

    def large(leaf: LeafPrecision) -> bool:
        return leaf.ratio > SUSPICIOUS and leaf.relative_size is not None and leaf.relative_size >= RELATIVE_SIZE

    own = {leaf.path for leaf in leaves if leaf.inputs == OWN and large(leaf)}
    benign = {leaf.path for leaf in leaves if leaf.inputs in ("integers", "spike", "moved") and large(leaf)}
    return [
        leaf.model_copy(update={"below": True}) if leaf.path in own & benign and large(leaf) else leaf
        for leaf in leaves
    ]


def _rms(values: torch.Tensor) -> torch.Tensor:
    """Root mean square of each block over what is not NaN; NaN for a block of nothing."""
    return values.square().nanmean(dim=1).sqrt()


def _most(values: torch.Tensor) -> torch.Tensor:
    """What nine of ten magnitudes of each block stay below; NaN for a block of nothing."""
    return values.abs().nanquantile(_QUANTILE, dim=1)


def _overall(values: torch.Tensor) -> float:
    found = float(values.square().nanmean().sqrt())
    return found if found == found else 0.0


def _together(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Correlation of two errors in each block, of values without a common offset, none larger than three medians: one
    large element, or a bias that both have, is no likeness. The sign doesn't count: truncation and rounding to the
    nearest go against each other."""
    a, b = _levelled(ours), _levelled(theirs)
    norms = (a.square().sum(dim=1) * b.square().sum(dim=1)).sqrt()
    enough = (~ours.isnan()).sum(dim=1) >= LEAST
    return torch.where((norms > 0) & enough, (a * b).sum(dim=1) / norms, 0.0)


def _levelled(values: torch.Tensor) -> torch.Tensor:
    centred = values - values.nanmedian(dim=1, keepdim=True).values
    size = centred.abs().nanmedian(dim=1, keepdim=True).values
    # Where most errors are the same there is no median size; the mean one serves.
    size = torch.where(size > 0, size, centred.abs().nanmean(dim=1, keepdim=True))
    return (centred / size.clamp_min(torch.finfo(torch.float64).tiny)).clamp(-_CLIP, _CLIP).nan_to_num()
