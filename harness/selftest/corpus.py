"""The corpus: tables of submissions with how each must end.

A folder holds `classes.toml`, `problems/` and one folder for each group of submissions with an `expected.toml`:

```toml
[[attack]]
file = "thread.py"                  # beside the table
classes = ["A4", "B28"]             # of classes.toml
problem = "scale"                   # a folder of problems/
device = "any"                      # cpu, cuda, any
verdict = ["rejected"]
reason = ["output.unfinished"]

[[attack]]
file = "patched_clock.py"
classes = ["A9"]
problem = "wave"
device = "any"
mode = "run"                        # check unless said otherwise
verdict = ["rejected", "accepted"]
reason = ["time.not_confirmed", "grade.accepted"]
at_least = 0.7                      # accepted only with a time of so much of the twin's, graded in the same run
twin = "../honest/wave.py"

[[honest]]
file = "wave.py"
like = ["A9"]                       # the classes that it resembles
problem = "wave"
device = "any"
```

Data, so that a program can hold the grader to it. A key that nobody knows is an error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from harness.load.tables import read_table
from harness.report import Verdict

Kind = Literal["cpu", "cuda"]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class CorpusError(Exception):
    """The corpus can't be used; the message is one plain sentence."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AttackClass(_Row):
    """One way to fool a grader."""

    name: str = Field(min_length=1)
    technique: str = Field(min_length=1)
    """How it fools one."""
    meets: str = Field(min_length=1)
    """What it meets here."""
    not_built: str = ""
    """Why no submission of the corpus does it; empty where one does."""


class _Entry(_Row):
    file: str = Field(min_length=1)
    """Relative to its table."""
    problem: str = Field(min_length=1)
    """A folder of problems/."""
    device: Literal["cpu", "cuda", "any"]
    mode: Literal["check", "run"] = "check"
    workload: str | None = None
    """None: the problem's default for the kind of device."""
    isolated: bool = False
    """Whether it would harm the machine without a sandbox that isolates."""
    machine: Literal["any", "x86_64"] = "any"
    """The processor whose instructions it is made of."""
    tested: bool = True
    """False: `harness selftest` alone grades it; the tests have others like it, and little time."""
    note: str = ""
    """What there is to know about it."""


class Attack(_Entry):
    """A submission that must not end better than the truth."""

    classes: Names = Field(min_length=1)
    verdict: Names = Field(min_length=1)
    """One of these it must end with."""
    reason: Names = ()
    """One of these reason codes; empty: whichever."""
    at_least: float | None = Field(default=None, gt=0, le=1)
    """Where accepted is a right end: the least that its figures may be, as shares of its twin's in the same run."""
    twin: str | None = None
    """An honest submission that does the same work."""
    open: str = ""
    """Why it still gets through, where that is known; empty where it must not."""

    @model_validator(mode="after")
    def _figures_where_accepted(self) -> Attack:
        if "accepted" in self.verdict and self.mode == "run" and (self.at_least is None or self.twin is None):
            raise ValueError("an attack that may be accepted with a time needs at_least and twin")
        if self.at_least is not None and (self.mode != "run" or "accepted" not in self.verdict):
            raise ValueError("at_least is for mode = run and a verdict of accepted")
        return self


class Honest(_Entry):
    """A submission that breaks no rule, and must be accepted."""

    like: Names = ()
    """The classes that it resembles."""
    open: str = ""
    """Why it is refused nevertheless, where that is known."""


class _Table(_Row):
    attack: Annotated[tuple[Attack, ...], Field(strict=False)] = ()
    honest: Annotated[tuple[Honest, ...], Field(strict=False)] = ()


@dataclass(frozen=True)
class Case:
    """An entry with its place, for one kind of device."""

    entry: Attack | Honest
    group: str
    """The folder's name."""
    path: Path
    problem: Path
    kind: Kind
    twin: Path | None

    @property
    def name(self) -> str:
        """`group/file`, with the workload where the table names one."""
        workload = f"@{self.entry.workload}" if self.entry.workload else ""
        return f"{self.group}/{self.path.stem}{workload}"


@dataclass(frozen=True)
class Corpus:
    """All of it."""

    folder: Path
    classes: dict[str, AttackClass]
    tables: dict[str, tuple[Attack | Honest, ...]]

    def cases(self, kind: Kind) -> list[Case]:
        """The entries for a kind of device, in the order of the tables."""
        return [
            self._case(group, entry, kind)
            for group, entries in self.tables.items()
            for entry in entries
            if entry.device in (kind, "any")
        ]

    def elsewhere(self, kind: Kind) -> list[Case]:
        """The entries for the other kind alone."""
        other: Kind = "cuda" if kind == "cpu" else "cpu"
        return [case for case in self.cases(other) if case.entry.device == other]

    def _case(self, group: str, entry: Attack | Honest, kind: Kind) -> Case:
        folder = self.folder / group
        twin = getattr(entry, "twin", None)
        return Case(
            entry=entry,
            group=group,
            path=folder / entry.file,
            problem=self.folder / "problems" / entry.problem,
            kind=kind,
            twin=None if twin is None else folder / twin,
        )


def default_folder() -> Path:
    """Where a checkout has the corpus. Raises CorpusError where the package was installed without one."""
    folder = Path(__file__).resolve().parent.parent.parent / "tests" / "attacks" / "corpus"
    if not (folder / "classes.toml").is_file():
        raise CorpusError(f"there is no corpus in {folder}: name a checkout's tests/attacks/corpus with --corpus.")
    return folder


def load_corpus(folder: Path) -> Corpus:
    """Read the tables and check that they fit together and with the files. Raises CorpusError."""
    classes = read_table(folder / "classes.toml", TypeAdapter(dict[str, AttackClass]), CorpusError)
    tables: dict[str, tuple[Attack | Honest, ...]] = {}
    for path in sorted(folder.glob("*/expected.toml")):
        table = read_table(path, TypeAdapter(_Table), CorpusError)
        entries: tuple[Attack | Honest, ...] = (*table.attack, *table.honest)
        for entry in entries:
            _check_entry(folder, path, entry, classes)
        _check_files(path, entries)
        tables[path.parent.name] = entries
    if not tables:
        raise CorpusError(f"no folder of {folder} has an expected.toml; name another folder.")
    _check_classes(folder, classes, tables)
    return Corpus(folder, classes, tables)


def _check_entry(folder: Path, table: Path, entry: Attack | Honest, classes: dict[str, AttackClass]) -> None:
    problem = folder / "problems" / entry.problem
    if not (problem / "reference.py").is_file():
        raise CorpusError(f"{table}: {entry.file}: there is no problem {problem}; correct the name.")
    verdicts = entry.verdict if isinstance(entry, Attack) else ()
    if unknown := [each for each in verdicts if each not in set(Verdict)]:
        raise CorpusError(f"{table}: {entry.file}: there is no verdict {unknown[0]!r}; choose of {', '.join(Verdict)}.")
    named = entry.classes if isinstance(entry, Attack) else entry.like
    if unknown := [each for each in named if each not in classes]:
        raise CorpusError(f"{table}: {entry.file}: classes.toml has no class {unknown[0]}; correct it.")
    twin = getattr(entry, "twin", None)
    for name in filter(None, (entry.file, twin)):
        if not (table.parent / name).is_file():
            raise CorpusError(f"{table} names {name!r}, which does not exist; correct the name.")


def _check_files(table: Path, entries: tuple[Attack | Honest, ...]) -> None:
    named = {entry.file for entry in entries}
    if forgotten := sorted({path.name for path in table.parent.glob("*.py")} - named):
        raise CorpusError(f"{table} does not name {forgotten[0]!r}, which lies beside it; add an entry.")
    counts: Counter[tuple[str, str, str | None]] = Counter()
    for entry in entries:
        kinds = ("cpu", "cuda") if entry.device == "any" else (entry.device,)
        counts.update((entry.file, kind, entry.workload) for kind in kinds)
    if twice := [key for key, count in counts.items() if count > 1]:
        raise CorpusError(f"{table} names {twice[0][0]!r} twice for one device and workload; remove one entry.")


def _check_classes(
    folder: Path, classes: dict[str, AttackClass], tables: dict[str, tuple[Attack | Honest, ...]]
) -> None:
    built = {
        name for entries in tables.values() for entry in entries if isinstance(entry, Attack) for name in entry.classes
    }
    where = folder / "classes.toml"
    if missing := [name for name, each in classes.items() if name not in built and not each.not_built]:
        raise CorpusError(f"{where}: no submission does {missing[0]}; add one, or say in not_built why there is none.")
    if both := [name for name, each in classes.items() if name in built and each.not_built]:
        raise CorpusError(f"{where}: {both[0]} is said not to be built, and a submission does it; remove not_built.")
