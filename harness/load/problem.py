"""A problem, whatever format it was written in (``harness/formats/``): sizes, settings, the right answer.

Loading reads and checks text; it runs nothing of the author's and does not import torch. ``Problem.module`` runs
the reference, on the trusted side only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness.load.expressions import Expression, ExpressionError
from harness.load.program import Calling, Program
from harness.load.reference import Reference, ReferenceModule
from harness.load.spec import RANKING, DeviceHint, FloorWork, ProblemError, ProblemSpec, WorkloadSpec
from harness.load.submission import MODEL_NEW, Submission

__all__ = ["FloorWay", "Problem", "ProblemError", "ProblemSpec", "ReferenceModule", "Workload"]

DeviceKind = Literal["cuda", "cpu"]

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
    reference: Reference
    statement: str | None
    """README.md, or None."""
    format: str = "kernelbench"
    """Which of the formats it was written in."""
    calling: Calling = MODEL_NEW
    """What a submission has to define."""
    beside: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Texts by name that a submission may import."""
    notes: tuple[str, ...] = ()
    """What the format can't say, or what of it is not followed: sentences for a reader."""

    @property
    def reference_source(self) -> str:
        """The text of reference.py."""
        return self.reference.source

    @classmethod
    def load(cls, path: Path | str) -> Problem:
        """Read a problem in any of the formats. Raises ProblemError."""
        from harness.formats import load

        return load(path)

    @classmethod
    def of(
        cls,
        name: str,
        path: Path,
        spec: ProblemSpec,
        reference: Reference,
        *,
        statement: str | None,
        format: str = "kernelbench",
        calling: Calling = MODEL_NEW,
        beside: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
    ) -> Problem:
        """A problem of these parts, checked as far as only all of them together can be. Raises ProblemError."""
        problem = cls(
            id=_safe_id(name),
            path=path,
            version=_version(spec, reference.content()),
            spec=spec,
            reference=reference,
            statement=statement,
            format=format,
            calling=calling,
            beside=dict(beside or {}),
            notes=tuple(notes),
        )
        problem._check_workloads()
        return problem

    def submission(self, given: Submission | str | Path) -> Submission:
        """A submission to this problem, from a file or as it is. Raises SubmissionError."""
        if not isinstance(given, Submission):
            return Submission.load(given, self.calling)
        if given.calling == self.calling:
            return given
        return replace(Submission.from_source(given.source, given.name, self.calling), path=given.path)

    def program_of(self, submission: Submission) -> Program:
        """What is run of a submission, with what may lie beside it."""
        program = submission.program
        return replace(program, files={**self.beside, **program.files})

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
        return self.reference.module(workload.args)

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


def _safe_id(name: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".-")[:100]
    return safe or "problem"


def _version(spec: ProblemSpec, reference: object) -> str:
    content = json.dumps([_VERSION_FORMAT, spec.graded_content(), reference])
    return hashlib.sha256(content.encode("ascii")).hexdigest()
