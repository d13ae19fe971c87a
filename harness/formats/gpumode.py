"""GPU MODE's tasks (gpu-mode/reference-kernels): a folder with task.yml and reference.py.

    task.yml       files, tests and benchmarks (each the arguments of one generate_input), how benchmarks rank
    reference.py   generate_input(**arguments), ref_kernel(data), check_implementation(data, output)
    submission     custom_kernel(data)

Each test is a workload for checking, each benchmark one that is timed. A `seed` among the arguments is replaced for
every call by a secret one of the grader's. check_implementation, the author's trusted code, decides what is right, in
the grader, on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from harness.formats.files import read, validated
from harness.load.authored import Authored
from harness.load.problem import Problem
from harness.load.program import Calling, Program
from harness.load.pysource import SourceSyntaxError, parse_source, top_level_names
from harness.load.reference import ReferenceModule
from harness.load.spec import (
    ArgValue,
    DefaultWorkload,
    Policy,
    ProblemError,
    ProblemSpec,
    Ranking,
    WorkloadSpec,
)

NAME = "gpumode"
_TASK_BYTES = 1 << 20
_SUBMISSION = "@SUBMISSION@"
_CASES_MAX = 200
_FUNCTIONS = ("ref_kernel", "generate_input", "check_implementation")

Case = dict[str, ArgValue]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, max_length=200)
    source: str = Field(min_length=1, max_length=500)


class _Task(BaseModel):
    """task.yml, as far as it bears on a grading."""

    model_config = ConfigDict(extra="ignore", strict=True)

    files: Annotated[list[_File], Field(max_length=100)] = []
    lang: str = "py"
    description: str = ""
    tests: Annotated[list[Case], Field(max_length=_CASES_MAX)] = []
    benchmarks: Annotated[list[Case], Field(max_length=_CASES_MAX)] = []
    ranking_by: Literal["last", "mean", "geom"] = "last"
    multi_gpu: bool = False


_ELSEWHERE = frozenset(
    {
        *_Task.model_fields,
        "config", "templates", "test_timeout", "benchmark_timeout", "ranked_timeout", "gpus", "deadline", "name",
    }
)  # fmt: skip
"""Keys that are about something else than what is right and fast, or that a note is made of anyway."""


def load(path: Path) -> Problem:
    """Raises ProblemError."""
    folder = path if path.is_dir() else path.parent
    where = folder / "task.yml"
    document = _document(read(where, _TASK_BYTES), str(where))
    task = _task(document, str(where))
    beside = _files(task, folder, str(where))
    reference = _Reference.of(folder, beside)
    notes = list(_notes(task, document))
    spec = _spec(task, notes)
    return Problem.of(
        folder.name,
        folder,
        spec,
        reference,
        statement=task.description or None,
        format=NAME,
        calling=Calling("custom_kernel", "function"),
        beside=beside,
        notes=notes,
    )


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Safe, and without aliases: a text of a page could stand for gigabytes with them."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()
            raise yaml.constructor.ConstructorError(None, None, "an alias (*name) is not allowed", event.start_mark)
        return super().compose_node(parent, index)


def _document(text: str, where: str) -> Mapping[str, object]:
    try:
        document = yaml.load(text, _Loader)  # a subclass of the safe loader
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        what = " ".join(str(error).split())[:300] or "nested too deeply"
        raise ProblemError(f"{where} is not YAML that can be read: {what}; correct it.") from None
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ProblemError(f"{where} is no mapping of names; write keys such as files, tests and benchmarks.")
    return document


def _task(document: Mapping[str, object], where: str) -> _Task:
    task = validated(_Task, document, where)
    if task.lang != "py":
        raise ProblemError(
            f"{where}: lang is {task.lang!r}; only tasks in Python (lang: py) can be graded. CUDA in them goes through "
            "torch.utils.cpp_extension."
        )
    if task.multi_gpu:
        raise ProblemError(f"{where}: multi_gpu is true; a task for several GPUs at once can't be graded.")
    if not task.tests and not task.benchmarks:
        raise ProblemError(f"{where} has neither tests nor benchmarks; give at least one, the arguments of a call.")
    return task


def _files(task: _Task, folder: Path, where: str) -> dict[str, str]:
    """The texts that the task puts beside a submission, without the reference and the evaluator."""
    beside = {}
    for file in task.files:
        name, source = PurePosixPath(file.name), PurePosixPath(file.source)
        if file.source == _SUBMISSION:
            if name.suffix != ".py":
                raise ProblemError(f"{where}: files: {file.name!r} is the submission, and no Python file; name one.")
            continue
        if name.is_absolute() or ".." in name.parts or source.is_absolute() or "\0" in f"{name}{source}":
            raise ProblemError(f"{where}: files: {file.name!r} from {file.source!r}: write relative paths.")
        if file.name in ("reference.py", "eval.py"):
            continue  # the answer, and what grades there
        beside[file.name] = read(folder / source)
    for module in ("task.py", "utils.py"):  # which tasks import without naming them
        if module not in beside and (folder / module).is_file():
            beside[module] = read(folder / module)
    return beside


def _spec(task: _Task, notes: list[str]) -> ProblemSpec:
    names = [f"benchmark-{number}" for number in range(len(task.benchmarks))]
    if task.ranking_by == "last" and len(names) > 1:
        notes.append(
            f"ranking_by is last, which GPU MODE allows with one benchmark alone; of the {len(names)} here the last "
            "one ranks, and the others are checked."
        )
        ranks = names[-1:]
    else:
        ranks = names
    workloads = {
        name: WorkloadSpec(args=case, timed=name in ranks, trials=5 if name in ranks else 1)
        for name, case in zip(names, task.benchmarks, strict=True)
    }
    workloads |= {
        f"test-{number}": WorkloadSpec(args=case, timed=False, trials=1) for number, case in enumerate(task.tests)
    }
    first = ranks[0] if ranks else next(iter(workloads))
    return ProblemSpec(
        precision="any",
        workloads=workloads,
        default_workload=DefaultWorkload(cuda=first, cpu=first),
        ranking=Ranking(
            workloads=tuple(ranks) if len(ranks) > 1 else (),
            by="mean" if task.ranking_by == "mean" else "geometric_mean",
        ),
        # Its evaluator makes inputs anew for every call and looks at nothing but what comes back.
        policy=Policy(in_place=True, alias_outputs=True),
    )


def _notes(task: _Task, document: Mapping[str, object]) -> list[str]:
    notes = [
        "The format states no precision and no tolerance: the task's own check_implementation decides, and the "
        "precision of the arithmetic is not judged.",
        "The format lets a submission change its input and return memory of it.",
        "The format states no floor: no time is too short to be believed.",
        "A submission can't import reference.py.",
    ]
    if not all("seed" in case for case in [*task.tests, *task.benchmarks]):
        notes.append(
            "Some cases have no seed: their inputs differ only if generate_input draws from torch's generator."
        )
    if not task.benchmarks:
        notes.append("There are no benchmarks: nothing is timed.")
    if any(key.endswith("_timeout") for key in document):
        notes.append("The timeouts are those of GPU MODE's own evaluator; the grader's own limits hold here.")
    unknown = sorted(key for key in document if key not in _ELSEWHERE)
    if unknown:
        notes.append(f"Keys that are not followed: {', '.join(unknown)[:300]}.")
    return notes


@dataclass(frozen=True)
class _Reference:
    """reference.py of a task."""

    source: str
    where: str
    beside: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, beside: Mapping[str, str]) -> _Reference:
        path = folder / "reference.py"
        if not path.is_file():
            raise ProblemError(f"The folder {folder} has no reference.py; add it, with {', '.join(_FUNCTIONS)}.")
        source = read(path)
        try:
            names = top_level_names(parse_source(source))
        except SourceSyntaxError as error:
            raise ProblemError(f"{path}, line {error.line}: {error.message}; correct the syntax.") from None
        missing = [name for name in _FUNCTIONS if name not in names]
        if missing and "*" not in names:
            raise ProblemError(f"{path} does not define {' and '.join(missing)}; a GPU MODE reference has them.")
        return cls(source, str(path), beside)

    def default_sizes(self) -> dict[str, object]:
        """None: every case gives all of its arguments."""
        return {}

    def check_args(self, args: Mapping[str, object], workload: str) -> None:
        """What generate_input takes, only calling it can tell."""

    def module(self, args: Mapping[str, object]) -> ReferenceModule:
        """A fresh execution."""
        return _Module(self, args)

    def program(self) -> Program:
        """The text, with ref_kernel as what is timed."""
        return Program(self.source, "reference.py", Calling("ref_kernel", "function"), self.beside)

    def content(self) -> object:
        """All texts."""
        return {"reference.py": self.source, **self.beside}


class _Module(ReferenceModule):
    has_judge = True

    def __init__(self, text: _Reference, args: Mapping[str, object]) -> None:
        super().__init__(Authored(text.source, text.where, text.beside), text.where)
        self._args = dict(args)
        for name in _FUNCTIONS:
            if not callable(self._authored.namespace.get(name)):
                raise ProblemError(f"{text.where} leaves {name} undefined or not callable after it ran; define it.")

    @property
    def Model(self) -> Callable[..., Any]:
        """Makes ref_kernel: there is nothing to construct."""
        kernel = self._authored.namespace["ref_kernel"]
        return lambda: kernel

    def get_inputs(self) -> list[Any]:
        """The one argument, data, of a case with a seed that nobody has seen."""
        import torch

        args = dict(self._args)
        if "seed" in args:
            # From the generator that the grader has seeded for this call.
            args["seed"] = int(torch.randint(1, 1 << 31, (), device="cpu"))
        with self.blaming("generate_input"):
            return [self._authored.namespace["generate_input"](**args)]

    def judge(self, inputs: list[Any], output: Any, expected: Any) -> str | None:
        """What check_implementation says. An exception of its is a refusal: an odd output may be what brought it up."""
        try:
            said = self._authored.namespace["check_implementation"](inputs[0], output)
        except Exception as error:  # noqa: BLE001 - the author's code, on a stranger's output
            return f"check_implementation raised {type(error).__name__}: {' '.join(str(error).split())[:500]}"
        good, words = said if isinstance(said, tuple) and len(said) == 2 else (said, "")
        if isinstance(good, str):  # as older tasks have it: what is wrong, empty for nothing
            good, words = not good, good
        if not isinstance(good, bool):
            raise ProblemError(
                f"{self._where}: check_implementation returned {type(said).__name__}; it must return (good, message)."
            )
        return None if good else str(words) or "check_implementation refused it"
