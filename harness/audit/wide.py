"""The reference once more in float64, and once more with its numbers rounded to a coarser format.

    inputs, parameters  --widened-->  the author's forward under a mode that sees every operator  -->  float64 outputs

The mode makes float64 of whatever an operator gets or is told to make in a narrower type, so that a reference that
casts is followed too. With a rounding it also rounds: either what products take (matrix products and convolutions, as
tensor cores do), or everything that any operator returns (as a computation in that type would).
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from harness.audit.formats import Rounding
from harness.machine.lacking import lacks_device_memory

Where = Literal["products", "results"]
After = Callable[[str, tuple[Any, ...], dict[str, Any], Any], Any]
"""An operator's name, arguments, arguments by name, and result, to what stands for the result."""

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
_OPERANDS = {
    "mm": (0, 2),
    "bmm": (0, 2),
    "mv": (0, 2),
    "dot": (0, 2),
    "addmm": (1, 3),
    "addmv": (1, 3),
    "addbmm": (1, 3),
    "baddbmm": (1, 3),
    "convolution": (0, 2),
    "linear": (0, 2),
    "matmul": (0, 2),
}
"""Products, and which of their arguments are operands: from, to."""


class NotWide(Exception):
    """The reference can't be run in float64. The message says why, in words that follow `because`."""


class NoMemory(NotWide):
    """It can't for lack of memory, which others may have taken."""


def widen(value: Any) -> Any:
    """Nested values with every floating-point tensor in float64, complex ones in complex128."""
    return tree_map(_widen_leaf, value)


def wide_twin(model: Any) -> Any:
    """A copy of the reference model with its parameters and buffers widened. Raises NotWide."""
    try:
        twin = copy.deepcopy(model)
        return twin._apply(_widen_leaf) if isinstance(twin, torch.nn.Module) else twin
    except Exception as error:  # any author's object may refuse to be copied
        if lacks_device_memory(error):
            raise NoMemory("the device has no memory for a copy of its parameters") from None
        raise NotWide(f"its model can't be copied ({type(error).__name__})") from error


class WideMode(TorchDispatchMode):
    """Runs what it encloses in float64; `rounding` and `where` as in the module's first lines."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # To keep its compiler out of this, torch would import it first, which takes seconds and leaves a folder behind.
        return "torch._dynamo" in sys.modules

    def __init__(
        self,
        rounding: Rounding | None = None,
        where: Where = "results",
        spare: Callable[[], int] | None = None,
        after: After | None = None,
    ) -> None:
        """`spare` says how many bytes of memory are left; below what the largest result so far takes, it ends. `after`
        changes results."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._after = after
        self._rounding, self._where, self._spare = rounding, where, spare
        self._largest = 0
        self.products = 0
        """Products that were seen."""
        self.operators: set[str] = set()
        """Names of the operators that were seen but views, with a `_` more where they write to what was there."""
        self.cast = False
        """Whether anything had to be widened on the way: the reference casts."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in WIDE:
            kwargs["dtype"] = WIDE[kwargs["dtype"]]
            self.cast = True
        args = tuple(self._wide_argument(argument, func) for argument in args)
        kwargs = {name: self._wide_argument(argument, func) for name, argument in kwargs.items()}
        name = func._schema.name.removeprefix("aten::")
        if not func.is_view:
            self.operators.add(name + "_" * func._schema.is_mutable)
        operands = _OPERANDS.get(name)
        if operands is not None or "attention" in name:
            self.products += 1
            low, high = operands or (0, 3)
            if self._rounding is not None and self._where == "products":
                args = tuple(
                    self._round(each) if low <= position < high else each for position, each in enumerate(args)
                )
        result = func(*args, **kwargs)
        self._look(result)
        if self._after is not None:
            return self._after(name, args, kwargs, result)
        if self._rounding is None or self._where == "products" or func.is_view:
            return result
        if func._schema.is_mutable:
            for tensor in result if isinstance(result, tuple | list) else [result]:
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                    tensor.copy_(self._round(tensor))
            return result
        return tree_map(self._round, result)

    def _wide_argument(self, argument: Any, func: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            if argument.dtype not in WIDE:
                return argument
            if func._schema.is_mutable or func.is_view:
                raise NotWide(f"it writes to a tensor of its own of type {argument.dtype}")
            self.cast = True
            return argument.to(WIDE[argument.dtype])
        if isinstance(argument, torch.dtype):
            self.cast |= argument in WIDE
            return WIDE.get(argument, argument)
        if isinstance(argument, list | tuple):
            return type(argument)([self._wide_argument(item, func) for item in argument])
        return argument

    def _round(self, value: Any) -> Any:
        if self._rounding is None or not isinstance(value, torch.Tensor):
            return value
        if value.dtype is torch.float64:
            return self._rounding(value)
        if value.dtype is torch.complex128:
            return torch.view_as_complex(self._rounding(torch.view_as_real(value.resolve_conj())))
        return value

    def _look(self, result: Any) -> None:
        if self._spare is None:
            return
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.nbytes > self._largest:
                self._largest = tensor.nbytes
                if self._spare() < 2 * self._largest:
                    raise NoMemory("the machine has no memory for it")


@contextlib.contextmanager
def wide_defaults() -> Iterator[None]:
    """What is made without a dtype is made in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _widen_leaf(value: Any) -> Any:
    return value.to(WIDE[value.dtype]) if isinstance(value, torch.Tensor) and value.dtype in WIDE else value
