"""A definition and its workloads, in the JSON of flashinfer-bench and SOL-ExecBench, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.formats.files import read, validated
from harness.load.expressions import Expression, ExpressionError
from harness.load.spec import ProblemError

DTYPES = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
}
"""The formats' names, and torch's."""
WORKLOADS_MAX = 200
_ELEMENTS_MAX = 1 << 40

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class Axis(_Part):
    """One dimension: `const` with a value, `var` that a workload gives, or `expr` of others."""

    type: Literal["const", "var", "expr"]
    value: Annotated[int, Field(ge=0, lt=1 << 48)] | None = None
    expression: str | None = None


class Tensor(_Part):
    """An input or output; without a shape it is a plain number."""

    shape: Annotated[list[str], Field(max_length=32)] | None
    dtype: str


class Definition(_Part):
    """What is to be computed."""

    name: str = Field(min_length=1, max_length=200)
    description: str | None = None
    op_type: str = ""
    axes: dict[Name, Axis]
    inputs: dict[Name, Tensor] = Field(min_length=1, max_length=256)
    outputs: dict[Name, Tensor] = Field(min_length=1, max_length=256)
    reference: str = Field(min_length=1)
    constraints: list[str] | None = None
    custom_inputs_entrypoint: Name | None = None

    def sizes(self, given: Mapping[str, int]) -> dict[str, int]:
        """Every axis's value, from those of the `var` ones. Raises ValueError with what is missing."""
        found: dict[str, int] = {}
        for name, axis in self.axes.items():
            if axis.type == "const":
                if axis.value is None:
                    raise ValueError(f"axes.{name} is const and has no value")
                found[name] = axis.value
            elif axis.type == "var":
                if name not in given:
                    raise ValueError(f"it gives no value for the axis {name!r}")
                found[name] = given[name]
        for name, axis in self.axes.items():
            if axis.type == "expr":
                try:
                    value = Expression.parse(axis.expression or "").evaluate(found)
                except ExpressionError as error:
                    raise ValueError(f"axes.{name}: {error}") from None
                if value != int(value):
                    raise ValueError(f"axes.{name}: {axis.expression!r} is {value}, not a whole number")
                found[name] = int(value)
        return found

    def shape(self, tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Of a tensor that has one."""
        return tuple(sizes[axis] if axis in sizes else int(axis) for axis in tensor.shape or [])


class Input(_Part):
    """Where an input comes from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: bool | int | float | None = None
    path: str | None = None
    tensor_key: str | None = None


class Correctness(_Part):
    """SOL-ExecBench's own rule: |y - r| <= max_atol + max_rtol |r| for a share of the elements."""

    max_atol: float = Field(default=1e-2, ge=0)
    max_rtol: float = Field(default=1e-2, ge=0)
    required_matched_ratio: float = Field(default=1.0, gt=0, le=1)
    max_error_cap: float | None = Field(default=None, ge=0)


class Load(_Part):
    """One workload."""

    uuid: str = Field(min_length=1, max_length=64)
    axes: dict[str, Annotated[int, Field(ge=0, lt=1 << 48)]] = {}
    inputs: dict[str, Input] = {}
    correctness: Correctness | None = None
    tolerance: Correctness | None = None

    @property
    def rule(self) -> Correctness | None:
        """What it says of tolerances, if anything."""
        return self.tolerance or self.correctness


def read_definition(path: Path) -> Definition:
    """Raises ProblemError."""
    definition = validated(Definition, _json(read(path), str(path)), str(path))
    for kind, tensors in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        for name, tensor in tensors.items():
            if tensor.dtype not in DTYPES:
                known = ", ".join(DTYPES)
                raise ProblemError(
                    f"{path}: {kind}.{name}: the dtype {tensor.dtype!r} can't be graded; there are {known}."
                )
            for axis in tensor.shape or []:
                if axis not in definition.axes and not re.fullmatch(r"[0-9]{1,15}", axis):
                    raise ProblemError(f"{path}: {kind}.{name}: the axis {axis!r} is not among axes; add it there.")
    if definition.op_type == "sampling":
        raise ProblemError(
            f"{path}: op_type is sampling: its outputs are random and are compared by their distribution, which is not "
            "supported."
        )
    return definition


def read_workloads(path: Path, definition: Definition) -> list[Load]:
    """A line each, plain or within a trace's `workload`. Raises ProblemError."""
    found: list[Load] = []
    for number, line in enumerate(read(path, 16 << 20).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        document = _json(line, where)
        if isinstance(document, dict) and isinstance(document.get("workload"), dict):
            if document.get("definition") not in (None, definition.name):
                continue  # a file of several definitions' workloads
            document = document["workload"]
        load = validated(Load, document, where)
        _check(load, definition, where)
        if load.uuid in {each.uuid for each in found}:
            raise ProblemError(f"{where}: the uuid {load.uuid!r} is there twice; give each workload its own.")
        found.append(load)
        if len(found) > WORKLOADS_MAX:
            raise ProblemError(f"{path} has more than {WORKLOADS_MAX} workloads; leave some out.")
    if not found:
        raise ProblemError(f"{path} has no workload of {definition.name}; add one, a line of JSON.")
    return found


def _check(load: Load, definition: Definition, where: str) -> None:
    try:
        sizes = definition.sizes(load.axes)
        for tensor in (*definition.inputs.values(), *definition.outputs.values()):
            elements = 1
            for size in definition.shape(tensor, sizes):
                elements *= size
            if elements > _ELEMENTS_MAX:
                raise ValueError("a tensor has more than 10^12 elements")
    except ValueError as error:
        raise ProblemError(f"{where}: {error}; correct it.") from None
    missing = [name for name in definition.inputs if name not in load.inputs]
    if missing:
        raise ProblemError(f"{where}: inputs says nothing of {', '.join(missing)}; say where it comes from.")
    kinds = {each.type for each in load.inputs.values()}
    if "custom" in kinds and kinds - {"custom", "scalar"}:
        raise ProblemError(f"{where}: custom inputs can't be mixed with others; make all of them custom.")
    if "custom" in kinds and not definition.custom_inputs_entrypoint:
        raise ProblemError(f"{where}: inputs are custom, and the definition has no custom_inputs_entrypoint; name it.")
    for name, each in load.inputs.items():
        if each.type == "scalar" and each.value is None:
            raise ProblemError(f"{where}: inputs.{name} is a scalar without a value; give it one.")
        if each.type == "safetensors" and not (each.path and each.tensor_key):
            raise ProblemError(f"{where}: inputs.{name} lacks path or tensor_key; give both.")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ProblemError(f"{where} is no JSON that can be read{line}: {str(error)[:200]}; correct it.") from None
