"""A problem: a folder with problem.toml and reference.py, or one KernelBench file.

Loading reads and checks text; it runs nothing of the author's and does not import torch. ``Problem.module`` runs
reference.py, on the trusted side only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.expressions import Expression, ExpressionError
from harness.reference import ReferenceModule, ReferenceText
from harness.spec import RANKING, DeviceHint, FloorWork, ProblemError, ProblemSpec, WorkloadSpec, parse_spec

__all__ = ["FloorWay", "Problem", "ProblemError", "ProblemSpec", "ReferenceModule", "Workload"]

DeviceKind = Literal["cuda", "cpu"]

_MAX_FILE_BYTES = 4 << 20
_VERSION_FORMAT = "1"  # change it when the same files would be graded as another problem


@dataclass(frozen=True)
class FloorWay:
    """One legal way to do all of the work: amounts by resource, in bytes and operations.

    It takes at least the longest of amount over peak; the floor of a workload is the shortest of its ways.
    """

    name: str
    work: Mapping[str, float]
    """Keys: bytes, fp64_flops, fp32_flops, tf32_flops, fp16_flops, special_ops; absent: none needed."""


@dataclass(frozen=True)
class Workload:
    """One set of sizes of one problem."""

    name: str
    args: Mapping[str, object]
    """What it overrides."""
    sizes: Mapping[str, object]
    """Every keyword whose value is known: the defaults in reference.py, then ``args``."""
    device: DeviceHint
    timed: bool
    trials: int
    note: str


@dataclass(frozen=True)
class Problem:
    """A loaded problem. Two problems of one ``version`` grade alike."""

    id: str
    """The folder's name or the file's stem, with unsafe characters replaced by ``_``."""
    path: Path
    version: str
    """SHA-256 over reference.py and the part of problem.toml that can change a grading: no titles, no README."""
    spec: ProblemSpec
    reference: ReferenceText
    statement: str | None
    """README.md, or None."""

    @property
    def reference_source(self) -> str:
        """The text of reference.py."""
        return self.reference.source

    @classmethod
    def load(cls, path: Path | str) -> Problem:
        """Read a problem folder or a KernelBench file. Raises ProblemError."""
        path = Path(path)
        try:
            path = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise ProblemError(f"There is no problem at {str(path)!r}; give a folder or a .py file.") from None
        if path.is_dir():
            toml = path / "problem.toml"
            if not toml.is_file():
                raise ProblemError(
                    f"The folder {path} has no problem.toml; add one (an empty file will do) or name another folder."
                )
            spec = parse_spec(_read(toml), str(toml))
            reference_path, name = path / "reference.py", path.name
            readme = path / "README.md"
            statement = _read(readme) if readme.is_file() else None
        elif path.suffix == ".py":
            spec, statement, reference_path, name = ProblemSpec(), None, path, path.stem
        else:
            raise ProblemError(f"{path} is neither a folder nor a .py file; give a folder or a KernelBench file.")
        if not reference_path.is_file():
            raise ProblemError(f"The folder {path} has no reference.py; add it, with Model, get_inputs and so on.")
        reference = ReferenceText.read(_read(reference_path), str(reference_path))
        problem = cls(
            id=_safe_id(name),
            path=path,
            version=_version(spec, reference.source),
            spec=spec,
            reference=reference,
            statement=statement,
        )
        problem._check_workloads()
        return problem

    def workload(self, name: str | None, device_kind: DeviceKind) -> Workload:
        """The named workload, or the default for the kind of device. Raises ProblemError for an unknown name."""
        chosen = getattr(self.spec.default_workload, device_kind) if name is None else name
        if chosen not in self.spec.workloads:
            raise ProblemError(
                f"The problem {self.id} has no workload {chosen!r}; it has: {', '.join(self.spec.workloads)}."
            )
        return self._resolve(chosen, self.spec.workloads[chosen])

    def graded(self, name: str | None, device_kind: DeviceKind) -> tuple[Workload, ...]:
        """The workloads that a grading is about: the named one, else those of ``[ranking]`` that are meant for the kind
        of device, else its default. Raises ProblemError for an unknown name."""
        if name in (None, RANKING):
            ranked = [each for each in self.spec.ranking.workloads if self._fits(each, device_kind)]
            if ranked:
                return tuple(self._resolve(each, self.spec.workloads[each]) for each in ranked)
        return (self.workload(name, device_kind),)

    def _fits(self, name: str, device_kind: DeviceKind) -> bool:
        return self.spec.workloads[name].device in ("any", device_kind)

    def checking_workloads(self, device_kind: DeviceKind) -> tuple[Workload, ...]:
        """The workloads that are there for checking only and are meant for ``device_kind``, in the file's order."""
        return tuple(
            self._resolve(name, spec)
            for name, spec in self.spec.workloads.items()
            if not spec.timed and self._fits(name, device_kind)
        )

    def floor_ways(self, workload: Workload) -> tuple[FloorWay, ...]:
        """The amounts of work of every legal way, for the workload's sizes; empty where the problem states no floor."""
        floor = self.spec.floor
        shared = self._amounts(floor, workload)
        if not floor.alternatives:
            return (FloorWay("any", shared),) if shared else ()
        ways = []
        for alternative in floor.alternatives:
            work = dict(shared)
            for resource, amount in self._amounts(alternative, workload).items():
                work[resource] = work.get(resource, 0.0) + amount
            ways.append(FloorWay(alternative.name, work))
        return tuple(ways)

    def module(self, workload: Workload) -> ReferenceModule:
        """Run reference.py in a fresh module, with the workload's keywords. Raises ProblemError for what it raises."""
        return ReferenceModule(self.reference, workload.args)

    def _resolve(self, name: str, spec: WorkloadSpec) -> Workload:
        return Workload(
            name=name,
            args=dict(spec.args),
            sizes={**self.reference.default_sizes(), **spec.args},
            device=spec.device,
            timed=spec.timed,
            trials=spec.trials,
            note=spec.note,
        )

    def _amounts(self, work: FloorWork, workload: Workload) -> dict[str, float]:
        amounts: dict[str, float] = {}
        for resource in FloorWork.model_fields:
            text = getattr(work, resource)
            if text is not None:
                try:
                    amounts[resource] = Expression.parse(text).evaluate(workload.sizes)
                except ExpressionError as error:
                    raise ProblemError(
                        f"The floor of {self.id} cannot be computed for the workload {workload.name!r}: {error}."
                    ) from None
        return amounts

    def _check_workloads(self) -> None:
        """What only problem.toml and reference.py together can show."""
        for name, spec in self.spec.workloads.items():
            self.reference.check_args(spec.args, name)
            self.floor_ways(self._resolve(name, spec))


def _read(path: Path) -> str:
    """The text of a problem's file, with ``\\n`` line ends."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read ({error.strerror or error}); check the file.") from None
    if len(data) > _MAX_FILE_BYTES:
        raise ProblemError(f"{path} is larger than {_MAX_FILE_BYTES >> 20} MiB; make it a text of a few pages.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _safe_id(name: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".-")[:100]
    return safe or "problem"


def _version(spec: ProblemSpec, reference_source: str) -> str:
    content = json.dumps([_VERSION_FORMAT, spec.graded_content(), reference_source])
    return hashlib.sha256(content.encode("ascii")).hexdigest()
