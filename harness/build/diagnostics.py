"""Compiler output as data: gcc's, nvcc's and the linker's lines become `Diagnostic`s.

Three shapes are read:

    main.cpp:12:5: error: 'foo' was not declared in this scope          (gcc)
    cuda.cu(7): error: identifier "bar" is undefined                     (cudafe++, cicc)
    main.o: in function `...': main.cpp:(.text+0x1): undefined reference to `baz()'   (ld)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["error", "warning", "note"]


class Diagnostic(BaseModel):
    """One message of a compiler, or of the builder itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str | None
    """`cpp_sources`, `cuda_sources` (`[i]` where there are several), a file's own name, or a header's short name."""
    line: int | None
    """Line of the user's own text, from 1."""
    column: int | None
    severity: Severity
    message: str
    submission_line: int | None = None
    """The line of the submission's own file, from 1, where it is clear which one it is."""
    hint: str | None = None
    """What to do about it, in a sentence or two, where the mistake is a known one."""


class KernelResources(BaseModel):
    """What ptxas says about one kernel."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Demangled where that was possible."""
    arch: str
    """`sm_90`."""
    registers: int
    """Per thread."""
    shared_bytes: int
    """Static shared memory per block."""
    stack_bytes: int
    """Per thread."""
    spill_store_bytes: int
    """Per thread."""
    spill_load_bytes: int
    """Per thread."""
    constant_bytes: int
    """Of all constant banks together."""


MAX_FOUND = 1000
"""Messages read from one output; whoever has more has seen enough."""

Place = tuple[str, int | None]
Locate = Callable[[str, int | None], Place]
"""Compiler's file and line -> the file and line that a solver knows."""

_GCC = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)$"
)
_EDG = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): "
    r"(?P<severity>catastrophic error|error|warning|remark|note)(?: #[\w-]+)?: (?P<message>.*)$"
)
_TOOL = re.compile(
    r"^(?:nvcc|ptxas|nvlink|cc1plus|g\+\+|c\+\+|collect2|fatbinary|cicc|cudafe\+\+)\s*+(?::\s*+)?"
    r"(?P<severity>(?:fatal|internal compiler) error|fatal|error|warning)\s*: (?P<message>.*)$"
)
_PTXAS_AT = re.compile(r"^ptxas (?P<file>[^,]+), line (?P<line>\d+); (?P<severity>error|warning)\s*: (?P<message>.*)$")
_ASSEMBLER = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+): (?P<severity>Error|Warning): (?P<message>.*)$")
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<symbol>[^'`]+)'")
_LD_CANNOT = re.compile(
    r"^(?:\S*/)?ld(?:\.\w+)?: "
    r"(?:cannot find (?P<library>\S+)|(?P<other>.*error.*|.*multiple definition.*|required symbol .*))"
)
_MULTIPLE = re.compile(r"multiple definition of [`'](?P<symbol>[^'`]+)'")

# What nvcc's front end adds on the next line.
_TYPES = re.compile(r"^\s+((?:operand|argument|object) types? (?:are|is): .*)$")
_EPILOGUES = {"Ptx assembly aborted due to errors", "ld returned 1 exit status"}

_SEVERITIES: dict[str, Severity] = {
    "fatal error": "error",
    "catastrophic error": "error",
    "error": "error",
    "internal compiler error": "error",
    "fatal": "error",
    "Error": "error",
    "warning": "warning",
    "Warning": "warning",
    "remark": "note",
    "note": "note",
}


def _as_is(file: str, line: int | None) -> Place:
    return file, line


def parse_compiler_output(text: str, locate: Locate = _as_is) -> list[Diagnostic]:
    """Every message of the output in its order, without hints."""
    found: list[Diagnostic] = []
    for raw in text.splitlines():
        line = raw.rstrip()
        if len(found) >= MAX_FOUND:
            break
        if found and (types := _TYPES.match(line)):
            last = found[-1]
            found[-1] = last.model_copy(update={"message": f"{last.message} ({types[1]})"})
        elif (diagnostic := _parse_line(line, locate)) is not None and diagnostic.message not in _EPILOGUES:
            found.append(diagnostic)
    return found


def _parse_line(line: str, locate: Locate) -> Diagnostic | None:
    for pattern in (_GCC, _EDG, _PTXAS_AT, _ASSEMBLER):
        match = pattern.match(line)
        if match:
            file, number = locate(match["file"].strip(), int(match["line"]))
            if file.rpartition("/")[2].startswith("tmpxft_"):
                # A line of an intermediate file, which nobody but the compiler has seen.
                return _placeless(_SEVERITIES[match["severity"]], match["message"].strip())
            column = match.groupdict().get("column")
            return Diagnostic(
                file=file,
                line=number,
                column=int(column) if column else None,
                severity=_SEVERITIES[match["severity"]],
                message=match["message"].strip(),
            )
    if match := _MULTIPLE.search(line):
        return _placeless("error", f"multiple definition of '{match['symbol']}'")
    if match := _UNDEFINED.search(line):
        # `warning:` comes from our own --warn-unresolved-symbols; whether it is an error is the caller's to say.
        return _placeless("warning" if "warning:" in line else "error", f"undefined reference to '{match['symbol']}'")
    if match := _LD_CANNOT.match(line):
        return _placeless("error", f"cannot find {match['library']}" if match["library"] else match["other"].strip())
    if match := _TOOL.match(line):
        words = match["message"].strip()
        internal = match["severity"].startswith("internal")
        return _placeless(_SEVERITIES[match["severity"]], f"internal compiler error: {words}" if internal else words)
    return None


def _placeless(severity: Severity, message: str) -> Diagnostic:
    return Diagnostic(file=None, line=None, column=None, severity=severity, message=message)


def first_errors_first(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Errors before warnings before notes, each in the compiler's order, exact repetitions dropped."""
    rank = {"error": 0, "warning": 1, "note": 2}
    return sorted(dict.fromkeys(diagnostics), key=lambda d: rank[d.severity])
