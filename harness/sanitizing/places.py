"""From a compiler's file and line to the ones that a solver knows: the text that was handed to `load_inline`, and where
in the submission's own file that text stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.audit.kernels import attribute, base_name, names_in_library, names_in_text
from harness.build.outcome import BuildOutcome
from harness.build.plan import Plan
from harness.load.strings import Strings
from harness.sanitizing.findings import Place
from harness.sanitizing.parse import Spot

_TEXT_MOST = 200


@dataclass(frozen=True)
class Extension:
    """One extension that the submission had built."""

    plan: Plan
    functions: frozenset[str]
    """Qualified names of what is in the library."""
    kernels: tuple[str, ...]
    """Kernels as ptxas names them."""

    @classmethod
    def of(cls, plan: Plan, outcome: BuildOutcome) -> Extension:
        """From a plan and what came of it."""
        functions = names_in_library(outcome.library) if outcome.library is not None else set()
        return cls(plan, frozenset(functions), tuple(kernel.name for kernel in outcome.kernels))

    def has(self, kernel: str) -> bool:
        """Whether a kernel, by the name that it is shown with, comes from here."""
        name = base_name(kernel)
        return name in self.functions or name in map(base_name, self.kernels)


class Places:
    """The submission's texts and extensions, for one lookup after the other."""

    def __init__(self, name: str, source: str, extensions: Sequence[Extension]) -> None:
        """`name` is what the submission's file is called where it runs."""
        self._name, self._source, self._extensions = name, source, extensions
        self._lines = source.split("\n")
        self._strings = Strings(source)
        self._in_text = names_in_text(source)

    def own(self, kernel: str) -> bool:
        """Whether the submission brought a kernel, by the rule of the audit."""
        library = {name for extension in self._extensions for name in extension.functions}
        compiled = {name for extension in self._extensions for name in extension.kernels}
        (use,) = attribute([(kernel, 1, 0.0)], library=library, text=self._in_text, compiled=compiled, calls=1)
        return use.own

    def place(self, spot: Spot, kernel: str) -> Place:
        """What a solver knows a spot as; one outside of what was built keeps the file's own name."""
        if spot.file is None or spot.line is None:
            return Place(function=spot.function, access=spot.access)
        name = spot.file.rsplit("/", 1)[-1]
        if name == self._name:  # Triton: kernels are lines of the submission itself
            return Place(
                function=spot.function,
                access=spot.access,
                file=name,
                line=spot.line,
                submission_line=spot.line if spot.line <= len(self._lines) else None,
                text=_line(self._source, spot.line),
            )
        for extension in sorted(self._extensions, key=lambda each: not each.has(kernel)):
            if (source := _file_of(extension.plan, spot.file)) is None:
                continue
            label, line = extension.plan.locate(source, spot.line)
            text = extension.plan.sources().texts.get(label)
            if line is None or text is None:
                continue
            return Place(
                function=spot.function,
                access=spot.access,
                file=label,
                line=line,
                submission_line=self._strings.line(text, line),
                text=_line(text, line),
            )
        return Place(function=spot.function, access=spot.access, file=name, line=spot.line)


def _file_of(plan: Plan, path: str) -> str | None:
    """Which file of a plan a path ends with; the longest, where several do."""
    found = [name for name in plan.files if path == name or path.endswith("/" + name)]
    return max(found, key=len, default=None)


def _line(text: str, line: int) -> str | None:
    lines = text.split("\n")
    return lines[line - 1].strip()[:_TEXT_MOST] if 0 < line <= len(lines) else None
