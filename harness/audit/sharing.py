"""Whether outputs share memory with inputs, with each other or with outputs of other calls.

    outputs   filled with 1, 2, 3, ... leaf by leaf over all calls that are held, then inputs with 0
    read      a leaf that is not what was written to it last shares memory with what was written later

What is read decides. A worker that does not write as it was told can only hide that memory is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from harness.check.compare import Expected
from harness.check.oracle import Oracle
from harness.judge.evidence import Shared
from harness.wire.tree import TreeError, put_together, take_apart
from harness.workers.worker import Worker, WorkerFailure

_LEAVES_MAX = 120
"""Numbers that even an int8 tells apart; more leaves are not looked at."""


def shared_memory(
    worker: Worker,
    oracle: Oracle,
    expected: Expected,
    source: str,
    outputs: Sequence[str],
    inputs: list[object],
    call_seed: int,
) -> Shared | None:
    """The first output leaf that shares memory, where the reference's do not. Both input and outputs are gone then."""
    count = len(expected.leaves)
    if not 0 < count * len(outputs) <= _LEAVES_MAX:
        return None
    try:
        worker.scribble([source], outputs)
    except WorkerFailure as failure:
        if failure.kind == "failed":
            return None  # memory that overlaps itself can't be written to as a whole
        raise
    found = None
    for call, name in enumerate(outputs):
        values = _values(expected, worker.fetch(name, "live", expected.specs))
        for number, seen in values.items():
            wrong = [value for value in seen if value != call * count + number + 1]
            if wrong and found is None:
                found = Shared(expected.leaves[number].path, "input" if 0.0 in wrong else "output")
    return None if found is not None and _reference_shares(oracle, inputs, call_seed) else found


def _values(expected: Expected, pieces: Iterable[tuple[int, int, torch.Tensor]]) -> dict[int, set[float]]:
    """The smallest and largest value of each leaf; bools are left out, which hold no number."""
    found: dict[int, set[float]] = {}
    for number, _, data in pieces:
        dtype = expected.leaves[number].flat.dtype
        if dtype is torch.bool:
            continue
        values = data.view(dtype)
        if expected.leaves[number].parts == 2:
            values = values[::2]  # a number's imaginary part is 0
        wide = values.to(torch.float64)
        found.setdefault(number, set()).update([float(wide.min()), float(wide.max())])
    return found


def _reference_shares(oracle: Oracle, inputs: list[object], call_seed: int) -> bool:
    """Whether the reference itself returns memory of its inputs, its parameters, or twice the same."""
    try:
        skeleton, leaves = take_apart(inputs)
        given = [leaf.clone() for leaf in leaves]
        returned = oracle.returned(oracle.model, put_together(skeleton, list(given)), call_seed, None)
        _, outputs = take_apart(returned)
    except TreeError:
        return False
    places = [_place(leaf) for leaf in outputs]
    others = {_place(leaf) for leaf in [*given, *oracle.state().values()]}
    return len(set(places)) < len(places) or any(place in others for place in places)


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
