"""From what compilers printed to what a solver reads: own errors first, noise folded, hints added."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.brief import cut
from harness.build.diagnostics import Diagnostic, KernelResources, first_errors_first, parse_compiler_output
from harness.build.hints import GENERATED, Sources, hint_for
from harness.build.plan import Plan
from harness.build.toolchain import Toolchain

_FUNCTION = re.compile(r": in function `[^\n]*':$|: more undefined references to ")
_TARGET = "bin/../targets/x86_64-linux/include"
MAX_READ_CHARS = 1 << 20
MAX_LINE_CHARS = 8000
MAX_HINTED = 50
"""Diagnostics that get a hint; those after them are mostly consequences of the first."""
MAX_STATIC_SHARED_BYTES = 48 << 10
"""Of a block, on every architecture: more has to be dynamic."""
MAX_MESSAGE_CHARS = 2000
"""Of a diagnostic, and of its hint; the log has more of it."""
MAX_NOTES = 1
"""Notes kept after an error; the rest is the compiler thinking aloud."""


@dataclass(frozen=True)
class Explained:
    """A build's diagnostics and resources."""

    diagnostics: list[Diagnostic]
    kernels: list[KernelResources]
    fatal: bool
    """Whether the library could be linked but can't be loaded."""


def explain(text: str, plan: Plan, kernels: list[KernelResources]) -> Explained:
    """Read the output of all steps of a build (paths already shortened)."""
    sources = plan.sources()
    found = _fold_notes(parse_compiler_output(text, plan.locate))
    found = [_with_instantiation(d, text, plan, sources) for d in found[:MAX_HINTED]] + found[MAX_HINTED:]
    kept: list[Diagnostic] = []
    fatal = False
    for d in found:
        if d.message.startswith("undefined reference to"):
            if not _surely_undefined(d.message):
                continue
            # Torch's link lets it pass, and the import then fails with the mangled name.
            d = d.model_copy(update={"severity": "error"})
            fatal = True
        elif d.severity != "error" and d.file is not None and d.file not in sources.texts:
            continue  # A warning in somebody else's header.
        kept.append(d)
    kept += plan.warnings
    kept += [_spilling(kernel) for kernel in kernels if kernel.spill_store_bytes or kernel.spill_load_bytes]
    if not any(d.severity == "error" for d in kept):
        kept += [_too_much_shared(kernel) for kernel in kernels if kernel.shared_bytes > MAX_STATIC_SHARED_BYTES]
    ordered = first_errors_first(kept)
    for at, d in enumerate(ordered[:MAX_HINTED]):
        if not d.hint and (hint := hint_for(d, sources)):
            ordered[at] = d.model_copy(update={"hint": hint})
    return Explained([_short(d) for d in ordered], kernels, fatal)


def _short(d: Diagnostic) -> Diagnostic:
    hint = None if d.hint is None else cut(d.hint, MAX_MESSAGE_CHARS)
    file = None if d.file is None else cut(d.file, MAX_MESSAGE_CHARS)
    return d.model_copy(update={"file": file, "message": cut(d.message, MAX_MESSAGE_CHARS), "hint": hint})


def shorten(text: str, folder: Path, toolchain: Toolchain) -> str:
    """Paths as a solver knows them: torch's and the toolkit's headers by their include names, ours not at all."""
    text = text.replace(f"{folder}/src/", "").replace(f"{folder}/", "").replace("../obj/", "")
    torch_include = toolchain.torch_root / "include"
    for root in (torch_include / "torch" / "csrc" / "api" / "include", torch_include):
        text = text.replace(f"{root}/", "")
    if toolchain.cuda_home is not None:
        for home in {toolchain.cuda_home, toolchain.cuda_home.resolve()}:
            for below in ("include/cccl", "include", f"{_TARGET}/cccl", _TARGET):
                text = text.replace(f"{home}/{below}/", "")
    return text


def bounded(text: str) -> str:
    """What of an output is read for diagnostics: it is a stranger's, and reading it must not take long."""
    if len(text) > MAX_READ_CHARS:
        text = text[: MAX_READ_CHARS // 2] + "\n" + text[-MAX_READ_CHARS // 2 :]
    return "\n".join(line[:MAX_LINE_CHARS] for line in text.splitlines())


def linker_words(text: str) -> str:
    """The linker's output without what every extension leaves undefined: the interpreter's own functions."""
    kept = []
    for line in text.splitlines():
        reference = re.search(r"undefined reference to `(.+)'$", line)
        if reference and not _surely_undefined(f"undefined reference to '{reference[1]}'"):
            continue
        if not _FUNCTION.search(line):
            kept.append(line)
    return "\n".join(kept)


def readable_kernel(demangled: str) -> str:
    """`void scan<float, 4>(float const*, int)` -> `scan<float, 4>`."""
    depth = 0
    for at, char in enumerate(demangled):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0 and at > 0 and not demangled.startswith("(anonymous namespace)", at):
            demangled = demangled[:at]
            break
    return demangled.removeprefix("void ")


def _fold_notes(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    kept: list[Diagnostic] = []
    notes = 0
    for d in diagnostics:
        if d.severity != "note":
            notes = 0
        else:
            notes += 1
            if notes > MAX_NOTES or not kept or kept[-1].severity == "warning":
                continue
        kept.append(d)
    return kept


def _with_instantiation(d: Diagnostic, text: str, plan: Plan, sources: Sources) -> Diagnostic:
    """For an error inside a header: the line of the solver's own text that led there."""
    if d.severity != "error" or d.file is None or d.file in sources.texts or d.file == GENERATED:
        return d
    at = text.find(d.message)
    around = text[max(0, at - 4000) : at + 4000]
    for name in plan.files:
        quoted = re.escape(name)
        pattern = (
            rf"{quoted}:(\d+):\d+:\s+required from here|at line (\d+) of {quoted}"
            rf"|{quoted}\((\d+)\): here|from {quoted}:(\d+)"
        )
        if match := re.search(pattern, around):
            file, line = plan.locate(name, int(next(group for group in match.groups() if group)))
            return d.model_copy(update={"hint": f"It comes from {file}:{line}."})
    return d


def _surely_undefined(message: str) -> bool:
    """Whether an undefined reference will be undefined at the import too.

    A C++ name that neither the objects nor torch's libraries define stays undefined. C names may yet come from the
    interpreter, or from a library that torch has loaded.
    """
    symbol = message.removeprefix("undefined reference to '").rstrip("'")
    return "(" in symbol or symbol.startswith(("_Z", "vtable for", "typeinfo for"))


def _too_much_shared(kernel: KernelResources) -> Diagnostic:
    """In ptxas' words: that of CUDA 12 lets it pass, and the launch then fails."""
    return Diagnostic(
        file=None,
        line=None,
        column=None,
        severity="warning",
        message=f"kernel {kernel.name} uses too much shared data ({kernel.shared_bytes} bytes, "
        f"{MAX_STATIC_SHARED_BYTES} max)",
    )


def _spilling(kernel: KernelResources) -> Diagnostic:
    return Diagnostic(
        file=None,
        line=None,
        column=None,
        severity="warning",
        message=f"kernel {kernel.name} spills registers: {kernel.spill_store_bytes} bytes stored and "
        f"{kernel.spill_load_bytes} loaded per thread ({kernel.registers} registers)",
        hint="Spills go to local memory: keep fewer values alive per thread, use smaller tiles, or allow more "
        "registers "
        "(__launch_bounds__ with fewer threads or blocks, no -maxrregcount).",
    )
