"""Definitions of flashinfer-bench and SOL-ExecBench, with their workloads.

    ROOT/definitions/gemm/gemm_n64.json    flashinfer-bench: the definition; with ROOT/workloads/gemm/gemm_n64.jsonl
    FOLDER/definition.json                 SOL-ExecBench: the definition; with FOLDER/workload.jsonl

Every workload ranks. Outputs are passed on as a dict by their names. A submission is a solution document (solutions.py)
or a Python file with `run`; in destination-passing style it gets its outputs as memory that holds nothing yet.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.formats.definition import DTYPES, Correctness, Definition, Load, read_definition, read_workloads
from harness.load.authored import Authored
from harness.load.problem import Problem
from harness.load.program import Calling, Program
from harness.load.pysource import SourceSyntaxError, parse_source, top_level_names
from harness.load.reference import ReferenceModule
from harness.load.spec import DefaultWorkload, ProblemError, ProblemSpec, Ranking, WorkloadSpec
from harness.wire.tree import named

NAME = "flashinfer"
_ROOT = "FLASHINFER_TRACE_DIR"
"""The environment's name of a folder in which safetensors files are looked for as well, as SOL-ExecBench has it."""
_INTEGERS = {"int8": (-128, 128)}
_INTEGERS_ELSE = (-1024, 1024)


def load(path: Path) -> Problem:
    """Raises ProblemError."""
    file = path / "definition.json" if path.is_dir() else path
    definition = read_definition(file)
    loads = read_workloads(_workloads_of(file), definition)
    reference = _Reference.of(definition, loads, file)
    names = [_workload_name(each.uuid) for each in loads]
    spec = ProblemSpec(
        title=definition.name,
        summary=" ".join((definition.description or "").split())[:200],
        precision="any",
        workloads={
            name: WorkloadSpec(args={**each.axes, "uuid": each.uuid}) for name, each in zip(names, loads, strict=True)
        },
        default_workload=DefaultWorkload(cuda=names[0], cpu=names[0]),
        ranking=Ranking(workloads=tuple(names) if len(names) > 1 else ()),
    )
    return Problem.of(
        file.parent.name if file.name == "definition.json" else file.stem,
        file.parent if file.name == "definition.json" else file,
        spec,
        reference,
        statement=definition.description,
        format=NAME,
        calling=Calling("run", "function", tuple(definition.inputs), tuple(definition.outputs), solutions=True),
        notes=_notes(definition, loads),
    )


def _workloads_of(file: Path) -> Path:
    """Where a definition's workloads are. Raises ProblemError."""
    tried = [file.parent / "workload.jsonl", file.parent / "workloads.jsonl", file.with_suffix(".jsonl")]
    root = _root_of(file)
    if root is not None:
        below = file.relative_to(root / "definitions").with_suffix(".jsonl")
        tried.insert(0, root / "workloads" / below)
    for path in tried:
        if path.is_file():
            return path
    raise ProblemError(f"{file} has no workloads: there is none of {', '.join(map(str, tried))}; add one.")


def _root_of(file: Path) -> Path | None:
    """The folder of a flashinfer-bench data set, which has `definitions` in it."""
    return next((folder.parent for folder in file.parents if folder.name == "definitions"), None)


def _workload_name(uuid: str) -> str:
    """As problem.toml could have it."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", uuid):
        return uuid
    return hashlib.sha256(uuid.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _notes(definition: Definition, loads: Sequence[Load]) -> list[str]:
    notes = [
        "The format states no precision: the arithmetic is not judged.",
        "The format states no floor: no time is too short to be believed.",
    ]
    if not all(each.rule for each in loads):
        notes.append("A workload without a rule of its own is compared with the grader's default tolerances.")
    if len(loads) > 1:
        notes.append("The format does not say how workloads rank together: by their geometric mean.")
    if any(each.type == "random" for load in loads for each in load.inputs.values()):
        notes.append(
            "Random inputs are normal (integers: uniform in -1024 to 1023), since the format names no distribution."
        )
    stored = sorted({name for load in loads for name, each in load.inputs.items() if each.type == "safetensors"})
    if stored:
        notes.append(
            f"{', '.join(stored)[:200]} come from files and are the same in every call: a submission that keeps what "
            "it made of them alone is not found out."
        )
    if all(each.type != "random" for load in loads for each in load.inputs.values()) and stored:
        notes.append(
            "No input is random: every call has the same ones, and one that keeps its result is not found out."
        )
    if definition.constraints:
        notes.append("The definition's constraints are not checked.")
    return notes


@dataclass(frozen=True)
class _Reference:
    """The definition's reference, and what it is called with."""

    source: str
    where: str
    definition: Definition
    loads: Mapping[str, Load]
    roots: tuple[Path, ...]

    @classmethod
    def of(cls, definition: Definition, loads: Sequence[Load], file: Path) -> _Reference:
        where = f"{file} (reference)"
        try:
            names = top_level_names(parse_source(definition.reference))
        except SourceSyntaxError as error:
            raise ProblemError(f"{where}, line {error.line}: {error.message}; correct the syntax.") from None
        wanted = ["run", *filter(None, [definition.custom_inputs_entrypoint])]
        missing = [name for name in wanted if name not in names]
        if missing and "*" not in names:
            raise ProblemError(f"{where} does not define {' and '.join(missing)}; add it.")
        roots = [file.parent, _root_of(file), Path(os.environ[_ROOT]) if os.environ.get(_ROOT) else None]
        reference = cls(
            definition.reference,
            where,
            definition,
            {each.uuid: each for each in loads},
            tuple(root for root in roots if root is not None),
        )
        for load in loads:
            for name, each in load.inputs.items():
                if each.type == "safetensors":
                    reference.file(load, name)
        return reference

    def file(self, load: Load, name: str) -> Path:
        """Where a stored input lies. Raises ProblemError."""
        given = load.inputs[name].path or ""
        try:
            found = next((root / given for root in self.roots if (root / given).is_file()), None)
        except (OSError, ValueError):
            found = None
        if found is None:
            raise ProblemError(
                f"{self.where}: the workload {load.uuid} takes {name} from {given!r}, which is in none of "
                f"{', '.join(map(str, self.roots))}; put it there, or name its folder in {_ROOT}."
            )
        return found

    def default_sizes(self) -> dict[str, object]:
        """The constant axes."""
        return {name: axis.value for name, axis in self.definition.axes.items() if axis.type == "const"}

    def check_args(self, args: Mapping[str, object], workload: str) -> None:
        """Checked when they were read."""

    def module(self, args: Mapping[str, object]) -> ReferenceModule:
        """A fresh execution."""
        return _Module(self, self.loads[str(args["uuid"])])

    def program(self) -> Program:
        """The text, with run as what is timed."""
        names = (tuple(self.definition.inputs), tuple(self.definition.outputs))
        return Program(self.source, "reference.py", Calling("run", "function", *names))

    def content(self) -> object:
        """Definition and workloads, without what is only said of them; of stored inputs the size of the file."""
        stored = {
            f"{load.uuid} {name}": self.file(load, name).stat().st_size
            for load in self.loads.values()
            for name, each in load.inputs.items()
            if each.type == "safetensors"
        }
        definition = self.definition.model_dump(mode="json", exclude={"description"})
        return [definition, [load.model_dump(mode="json") for load in self.loads.values()], stored]


class _Module(ReferenceModule):
    def __init__(self, reference: _Reference, load: Load) -> None:
        super().__init__(Authored(reference.source, reference.where), reference.where)
        self._reference, self._definition, self._load = reference, reference.definition, load
        self._sizes = self._definition.sizes(load.axes)
        self._rule: Correctness | None = load.rule
        self._stored: dict[str, Any] = {}
        self.has_judge = self._rule is not None

    @property
    def Model(self) -> Callable[..., Any]:
        """Makes run: there is nothing to construct."""
        return lambda: self._run

    def _run(self, *inputs: Any) -> Any:
        names = tuple(self._definition.outputs)
        returned = named(self._authored.namespace["run"](*inputs), names)
        if type(returned) is not dict or tuple(returned) != names:
            raise TypeError(f"run returned {type(returned).__name__}, not the outputs {', '.join(names)}")
        for name, spec in self._definition.outputs.items():
            wanted = (DTYPES[spec.dtype], self._definition.shape(spec, self._sizes))
            got = returned[name]
            if spec.shape is None or not hasattr(got, "dtype"):
                continue
            found = (str(got.dtype).removeprefix("torch."), tuple(got.shape))
            if found != wanted:
                raise TypeError(
                    f"run returned {name} as {found[0]} {list(found[1])}, not {wanted[0]} {list(wanted[1])}"
                )
        return returned

    def destinations(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """The outputs, in the definition's order."""
        return [
            (name, DTYPES[spec.dtype], self._definition.shape(spec, self._sizes))
            for name, spec in self._definition.outputs.items()
        ]

    def get_inputs(self) -> list[Any]:
        """In the definition's order."""
        import torch

        kinds = {each.type for each in self._load.inputs.values()}
        if "custom" in kinds:
            return self._custom(torch.get_default_device())
        with self.blaming("making inputs"):
            return [self._input(name) for name in self._definition.inputs]

    def _custom(self, device: Any) -> list[Any]:
        entry = self._definition.custom_inputs_entrypoint or ""
        scalars = {name: each.value for name, each in self._load.inputs.items() if each.type == "scalar"}
        with self.blaming(entry):
            made = self._authored.namespace[entry]({**self._sizes, **scalars}, device)
            return [made[name] if name in made else scalars[name] for name in self._definition.inputs]

    def _input(self, name: str) -> Any:
        import torch

        source, spec = self._load.inputs[name], self._definition.inputs[name]
        shape, dtype = self._definition.shape(spec, self._sizes), DTYPES[spec.dtype]
        if source.type == "scalar":
            return source.value
        if source.type == "safetensors":
            return self._from_file(name, shape, dtype)
        value = _random(shape, dtype)
        if spec.shape is None:
            return value.item()
        assert value.dtype is getattr(torch, dtype)
        return value

    def _from_file(self, name: str, shape: tuple[int, ...], dtype: str) -> Any:
        if name not in self._stored:
            path, key = self._reference.file(self._load, name), self._load.inputs[name].tensor_key or ""
            value = _read_tensor(path, key)
            found = (str(value.dtype).removeprefix("torch."), tuple(value.shape))
            if found != (dtype, shape):
                raise ProblemError(
                    f"{path}: {key!r} is {found[0]} {list(found[1])}, and {name} has to be {dtype} {list(shape)}."
                )
            self._stored[name] = value
        return self._stored[name].clone()

    def judge(self, inputs: list[Any], output: Any, expected: Any) -> str | None:
        """SOL-ExecBench's rule, for each output."""
        assert self._rule is not None
        for name, want in expected.items():
            if said := _refused(output[name], want, self._rule):
                return f"{name}: {said}"
        return None


def _read_tensor(path: Path, key: str) -> Any:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ProblemError(
            f"{path} holds an input, and reading it needs safetensors: pip install 'kernel-harness[flashinfer]'."
        ) from None
    try:
        with safe_open(str(path), framework="pt") as file:
            if key not in file.keys():  # noqa: SIM118 - no mapping
                raise ProblemError(f"{path} holds no tensor {key!r}; it holds: {', '.join(sorted(file.keys()))[:300]}.")
            return file.get_tensor(key)
    except (SafetensorError, OSError, ValueError) as error:
        raise ProblemError(f"{path} can't be read as safetensors ({str(error)[:200]}); check the file.") from None


def _random(shape: tuple[int, ...], dtype: str) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(0, 2, shape).to(torch.bool)
    if not kind.is_floating_point:
        low, high = (0, 256) if dtype == "uint8" else _INTEGERS.get(dtype, _INTEGERS_ELSE)
        return torch.randint(low, high, shape, dtype=kind)
    if dtype.startswith("float8"):
        return torch.randn(shape).clamp_(-2.0, 2.0).to(kind)
    return torch.randn(shape, dtype=kind)


def _refused(got: Any, want: Any, rule: Correctness) -> str | None:
    import torch

    if not isinstance(want, torch.Tensor):
        got, want = torch.tensor(float(got)), torch.tensor(float(want))
    y, r = got.to(torch.float64), want.to(torch.float64)
    if not r.numel():
        return None
    same = (y == r) | (torch.isnan(y) & torch.isnan(r))
    error = torch.where(same, 0.0, (y - r).abs())
    # False for NaN; where infinity was expected, every error would be small beside it.
    close = same | (torch.isfinite(r) & (error <= rule.max_atol + rule.max_rtol * r.abs()))
    matched = float(close.double().mean())
    if matched < rule.required_matched_ratio:
        least = rule.required_matched_ratio
        return f"{100 * matched:.4g} % of the elements are close enough, {100 * least:.4g} % have to be"
    most = float(error.max())
    if rule.max_error_cap is not None and not most <= rule.max_error_cap:
        return f"an element is off by {most:.4g}, and {rule.max_error_cap:.4g} is the most that is allowed"
    return None
