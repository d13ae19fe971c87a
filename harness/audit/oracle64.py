"""The float64 side of the audit: what the reference gives with wide numbers, and with coarse ones."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.audit.formats import Emulated, below, noise
from harness.audit.precision import Coarse, Sample
from harness.audit.sums import JUDGED, PlainSums
from harness.audit.wide import NoMemory, NotWide, Where, WideMode, wide_defaults, wide_twin, widen
from harness.check.compare import Expected
from harness.check.oracle import Oracle
from harness.machine.lacking import lacks_device_memory
from harness.machine.spare import spare_memory
from harness.wire.transfer import flat_bytes
from harness.wire.tree import TreeError, take_apart

_NOISES = 8
"""Runs with random errors before an accusation."""
_PLAIN_SUMS = 6
"""Runs with the errors of plain sums."""


@dataclass(frozen=True)
class Call:
    """One call of the reference, and what float64 says of it."""

    inputs: list[Any]
    call_seed: int
    expected: Expected
    sample: Sample
    wide: dict[int, torch.Tensor]
    """The chosen elements by leaf number."""


class WideOracle:
    """The reference in float64, on inputs that are given."""

    def __init__(self, oracle: Oracle, device: torch.device, *, strict: bool = False) -> None:
        """`strict`: whether a run that explains raises NoMemory, too, rather than be left out. Raises NotWide."""
        self._strict = strict
        if oracle.draws:
            raise NotWide("it draws random numbers, which come out otherwise in float64")
        self._oracle, self._device = oracle, device
        state = sum(tensor.nbytes for tensor in oracle.state().values())
        if self._spare() < 4 * state:
            raise NoMemory("there is no memory for its parameters in float64")
        self._twin = wide_twin(oracle.model)
        self._plain = False
        self.products = 0
        """Products that a call of the reference makes."""
        self._only_products = False
        """Whether it does nothing else that may be inaccurate."""

    def outputs(self, inputs: list[Any], call_seed: int, expected: Expected) -> list[torch.Tensor]:
        """The flat leaves of the output in float64, of the form of `expected`. Raises NotWide."""
        if self._plain:
            return self._run(self._twin, inputs, call_seed, expected, None)
        mode = WideMode(spare=self._spare)
        found = self._run(self._twin, inputs, call_seed, expected, mode)
        # A reference that casts nothing needs no watching: a loop of thousands of steps is quicker without.
        self._plain, self.products = not mode.cast, mode.products
        self._only_products = not mode.cast and mode.products > 0 and PlainSums.known_for(mode.operators)
        return found

    def coarse(
        self,
        emulated: Emulated,
        where: Where | None,
        inputs: list[Any],
        call_seed: int,
        expected: Expected,
        *,
        given_too: bool = True,
    ) -> list[torch.Tensor]:
        """The same with an arithmetic's rounding of what products take, of all results (and, unless `given_too` is
        False, of the inputs and parameters), or with None of inputs and parameters alone."""
        if where is not None and (where == "products" or not given_too):
            return self._run(self._twin, inputs, call_seed, expected, WideMode(emulated.rounding, where))

        def rounded(value: torch.Tensor) -> torch.Tensor:
            return emulated.rounding(value) if value.dtype is torch.float64 else value

        wide = take_apart(widen(inputs))[1]
        coarse_inputs = _replaced(inputs, [rounded(leaf) for leaf in wide])
        twin = copy.deepcopy(self._twin)
        if isinstance(twin, torch.nn.Module):
            twin._apply(rounded)
        mode = WideMode(emulated.rounding, where) if where is not None else WideMode()
        return self._run(twin, coarse_inputs, call_seed, expected, mode)

    def coarser(self, precision: str, of: Call, until: float, *, centred: bool) -> Iterator[Coarse]:
        """Errors of the arithmetics below a precision, mildest first, as far as time allows (`until` is a reading of
        time.monotonic); what can't be run is left out. Inputs that are not `centred` are told by products alone, and
        by the size of the mildest arithmetic's errors."""
        coarser = below(precision)
        for emulated, where in itertools.product(coarser, ("products", None, "results")):
            if where == "products" and not self.products:
                continue
            if not centred and where != "products" and (where is None or emulated is not coarser[0]):
                continue
            if time.monotonic() > until:
                return
            found = self._errors(emulated, where, of)  # type: ignore[arg-type]
            if found is not None:
                yield found

    def noise(self, like: Coarse, of: Call, seed: int) -> Iterator[Coarse]:
        """Random errors where an arithmetic has its own, several times."""
        for number in range(_NOISES):
            found = self._errors(noise(like.name, seed + (number << 32)), like.where, of)
            if found is not None:
                yield found

    def plain_sums(self, precision: str, of: Call, seed: int, until: float) -> list[dict[int, torch.Tensor]] | None:
        """Errors by leaf number of the least accurate honest way to take products, several times over; none where it
        can't be said what that is, None where time doesn't allow it (`until` is a reading of time.monotonic)."""
        if not self._only_products or precision not in JUDGED:
            return []
        sums, found = PlainSums(precision, keep=self.products == 1), []
        for number in range(_PLAIN_SUMS):
            if time.monotonic() > until:
                return None
            sums.begin(seed + (number << 32), self._device)
            try:
                flats = self._run(self._twin, of.inputs, of.call_seed, of.expected, WideMode(after=sums.after))
            except NotWide as error:
                self._leave_out(error)
                return []
            found.append({number: values - of.wide[number] for number, values in of.sample.of(flats).items()})
        return found

    def _errors(self, emulated: Emulated, where: Where | None, of: Call) -> Coarse | None:
        try:
            flats = self.coarse(emulated, where, of.inputs, of.call_seed, of.expected)
        except NotWide as error:
            self._leave_out(error)
            return None
        errors = {number: values - of.wide[number] for number, values in of.sample.of(flats).items()}
        finite = all(bool(torch.isfinite(error).all()) for error in errors.values())
        return Coarse(emulated.name, where, errors) if finite else None

    def _leave_out(self, error: NotWide) -> None:
        if self._strict and isinstance(error, NoMemory):
            raise error

    def _run(
        self, model: Any, inputs: list[Any], call_seed: int, expected: Expected, mode: WideMode | None
    ) -> list[torch.Tensor]:
        try:
            with wide_defaults():
                returned = self._oracle.returned(model, _copied(widen(inputs)), call_seed, mode)
            _, leaves = take_apart(returned, sort_keys=True)
        except NotWide:
            raise
        except MemoryError:
            raise NoMemory("the machine has no memory for it") from None
        except Exception as error:  # the author's code, asked for what it was not written for
            if lacks_device_memory(error):
                torch.cuda.empty_cache()
                raise NoMemory("the device has no memory for it") from None
            text = " ".join(str(error).split())[:200]
            raise NotWide(f"it raises {type(error).__name__} there ({text})") from error
        if [tuple(leaf.shape) for leaf in leaves] != [leaf.spec.shape for leaf in expected.leaves]:
            raise NotWide("its output has another form there")
        flats = []
        for leaf, wanted in zip(leaves, expected.leaves, strict=True):
            flat = flat_bytes(leaf).view(leaf.dtype)
            flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
            if wanted.flat.is_floating_point() and flat.dtype is not torch.float64:
                raise NotWide(f"{wanted.path} is {flat.dtype} there all the same")
            flats.append(flat)
        return flats

    def _spare(self) -> int:
        if self._device.type != "cuda":
            return spare_memory()
        free, _ = torch.cuda.mem_get_info(self._device)
        return free + torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)


def _copied(value: Any) -> Any:
    """With tensors of its own: a reference may change its inputs."""
    try:
        _, leaves = take_apart(value)
    except TreeError:
        return value
    return _replaced(value, [leaf.clone() for leaf in leaves])


def _replaced(value: Any, leaves: list[torch.Tensor]) -> Any:
    from harness.wire.tree import put_together

    skeleton, _ = take_apart(value)
    return put_together(skeleton, list(leaves))


class Kept:
    """What an iterator gives, kept, so that several can go through it and none of it is made before it is wanted."""

    def __init__(self, source: Callable[[], Iterator[Coarse]]) -> None:
        self._source = source
        self._iterator: Iterator[Coarse] | None = None
        self._kept: list[Coarse] = []

    def __call__(self) -> Iterator[Coarse]:
        """From the first on."""
        if self._iterator is None:
            self._iterator = self._source()
        for at in itertools.count():
            while at >= len(self._kept):
                following = next(self._iterator, None)
                if following is None:
                    return
                self._kept.append(following)
            yield self._kept[at]
