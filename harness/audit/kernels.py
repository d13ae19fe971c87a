"""Which of the kernels that ran the submission brought itself.

    built libraries   names that CUDA's registration needs, read from the file that the builder made
    text              functions under a jit decorator (Triton), and what follows __global__ in any string (NVRTC)
    trace             kernels with their times, as the worker says

The first two are what the grader knows, the third is a claim. A kernel is the submission's own when its qualified name,
without template arguments and parameters, is among the known ones and not in a namespace of torch's; templates of
libraries that are compiled into an extension count by their whole name as ptxas printed it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.audit.findings import KernelUse

_MANGLED = re.compile(rb"\x00(_Z[A-Za-z0-9_]{2,2000})(?=\x00)")
_ATTRIBUTE = re.compile(r"__\w{1,40}__\s{0,9}\([^()]{0,100}\)")
_HEAD = 400
"""Characters between __global__ and the parameters: attributes, a return type, the name."""
_TORCH = ("at::", "c10::", "torch::")
_SHARED = ("cutlass::", "cub::", "thrust::", "cute::")
_LIBRARY_MAX = 256 << 20


def names_in_library(path: Path) -> set[str]:
    """Qualified names of the C++ functions that a shared object names in strings; extern "C" ones are in the text."""
    try:
        if path.stat().st_size > _LIBRARY_MAX:
            return set()
        data = path.read_bytes()
    except OSError:
        return set()
    return {name for name in (qualified(match.decode()) for match in _MANGLED.findall(data)) if name}


def qualified(mangled: str) -> str:
    """`ns::kernel` of `_ZN2ns6kernelIfEEvPT_`; empty for what is no such name."""
    rest = mangled[2:]
    nested = rest.startswith("N")
    rest = rest[1:] if nested else rest
    parts: list[str] = []
    while rest:
        if rest[0] in "LKVrRO" and not parts:
            rest = rest[1:]
            continue
        digits = re.match(r"[1-9][0-9]{0,3}", rest)
        if digits is None:
            break
        length = int(digits[0])
        part = rest[digits.end() : digits.end() + length]
        if len(part) < length:
            return ""
        parts.append("(anonymous namespace)" if part.startswith("_GLOBAL__N_") else part)
        rest = rest[digits.end() + length :]
        if not nested:
            break
    return "::".join(parts)


def names_in_text(source: str) -> set[str]:
    """Names of jitted functions and of kernels in strings."""
    found = set(_kernels(source))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(_names_jit, node.decorator_list)):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(_kernels(node.value))
    return found


def _names_jit(decorator: ast.expr) -> bool:
    """Whether `jit` is a part of it. Not by its text: writing out a deeply nested one raises."""
    return any("jit" in (getattr(node, "id", None), getattr(node, "attr", None)) for node in ast.walk(decorator))


def _kernels(text: str) -> Iterator[str]:
    """Each name between a __global__ and its parameters. No one pattern for it: on hostile text that takes for ever."""
    for part in text.split("__global__")[1:]:
        head = _ATTRIBUTE.sub(" ", part[:_HEAD]).partition("(")[0].split()
        if head and head[-1].isidentifier():
            yield head[-1]


def base_name(shown: str) -> str:
    """`ns::kernel` of `void ns::kernel<float, 4>(float*)`, as profilers and ptxas show names."""
    text = shown.replace("(anonymous namespace)", "\0")
    text = re.split(r"[<(]", text, maxsplit=1)[0].strip()
    return text.rsplit(" ", 1)[-1].replace("\0", "(anonymous namespace)")


def short(name: str, limit: int = 60) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    base = base_name(name) or name
    return base if len(base) <= limit else base[: limit - 3] + "..."


def attribute(
    traced: Sequence[tuple[str, int, float]],
    *,
    library: Iterable[str],
    text: Iterable[str],
    compiled: Iterable[str],
    calls: int,
) -> list[KernelUse]:
    """The traced kernels, (name, launches, microseconds) over `calls` calls, longest first, each with its origin.

    `library`, `text`, `compiled`: qualified names in built files, names in the text, and whole names by ptxas.
    """
    in_library, in_text = set(library), set(text)
    whole = {plain_name(name) for name in compiled}
    found = []
    for name, launches, us in sorted(traced, key=lambda each: -each[2]):
        base = base_name(name)
        if name.startswith(("Memcpy", "Memset")):
            origin = "copy"
        elif base.startswith(_TORCH):
            origin = "library"
        elif base.startswith(_SHARED):
            origin = "extension" if base in in_library and plain_name(name) in whole else "library"
        elif base in in_library:
            origin = "extension"
        elif base.rsplit("::", 1)[-1] in in_text:
            origin = "text"
        else:
            origin = "library"
        found.append(
            KernelUse(
                name=name,
                origin=origin,  # type: ignore[arg-type]
                calls=launches / calls,
                time_us=us / calls,
                own=origin in ("extension", "text"),
            )
        )
    return found


def own_share(kernels: Sequence[KernelUse]) -> float | None:
    """Time in the submission's own kernels over the time in all; None where nothing ran."""
    total = sum(kernel.time_us for kernel in kernels)
    return sum(kernel.time_us for kernel in kernels if kernel.own) / total if total > 0 else None


def plain_name(name: str) -> str:
    """Spelled alike by all demanglers: without spaces and the return type."""
    return re.sub(r"\s+", "", re.sub(r"^void ", "", name))
