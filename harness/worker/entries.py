"""What stands for the model in an imported text: a class, a function, or a function that is given its outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.wire.transfer import TensorSpec, flat_bytes
from harness.wire.tree import named
from harness.worker.failure import Failure

_POISON = 0xFF
"""NaN as a float, -1 as an integer: what no right result is made of."""


class FunctionModel:
    """A function as a model: constructed from nothing, and every call is the function's."""

    def __init__(self, function: Callable[..., Any], outputs: Sequence[str]) -> None:
        """`outputs`: names under which what it returns is passed on; none: as it is."""
        self._function = function
        self._outputs = outputs

    def __call__(self, *arguments: Any) -> Any:
        returned = self._function(*arguments)
        return named(returned, self._outputs) if self._outputs else returned


class DestinationModel:
    """A function that writes its outputs to memory that it is given."""

    def __init__(self, function: Callable[..., Any], specs: Sequence[tuple[str, TensorSpec]], device: torch.device):
        self._function = function
        self._specs = specs
        self._device = device

    def __call__(self, *arguments: Any) -> Any:
        return self.bound(arguments)()

    def bound(self, arguments: Sequence[Any]) -> Callable[[], Any]:
        """A call whose outputs are there already, filled with what no right result holds."""
        outputs = {name: spec.empty(self._device) for name, spec in self._specs}
        for output in outputs.values():
            if output.dtype is torch.bool:
                output.fill_(True)
            else:
                flat_bytes(output, in_storage_order=True).fill_(_POISON)
        return functools.partial(_write, self._function, arguments, outputs)


def bound(model: Any, arguments: Sequence[Any]) -> Callable[[], Any]:
    """A call of a model that is ready to be made: nothing but the submission's work is left of it."""
    if type(model) is DestinationModel:
        return model.bound(arguments)
    return functools.partial(model, *arguments)


def find(module: Any, entry: str, style: str) -> Any:
    """The entry of a module. Raises Failure for what is none."""
    found = getattr(module, entry, None)
    good = isinstance(found, type) if style == "model" else callable(found)
    if not good:
        what = (
            "is not defined"
            if found is None
            else f"is {type(found).__name__}, not a " + ("class" if style == "model" else "function")
        )
        raise Failure("no_entry", f"after the import, {entry} {what}")
    return found


def _write(function: Callable[..., Any], arguments: Sequence[Any], outputs: dict[str, torch.Tensor]) -> Any:
    function(*arguments, *outputs.values())
    return outputs
