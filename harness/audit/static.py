"""What a human reader should look at in a submission's text. Hints, and never a reason for a verdict.

Everything here has honest uses, and everything that is meant to deceive can be written so that it isn't found. Python
is read as a syntax tree, so that comments and words like "stream" in a message are no findings; C++ in strings is
searched for identifiers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.report import Warning_

_MOST = 20
"""Findings that are told; a reader who needs more reads the text."""

_MODULES = {
    "gc": ("static.gc", "walks or steers the garbage collector, which shows every object of the process"),
    "ctypes": ("static.ctypes", "calls or changes native code and memory directly"),
    "cffi": ("static.ctypes", "calls or changes native code and memory directly"),
    "socket": ("static.network", "talks to a socket"),
    "urllib": ("static.network", "talks to the network"),
    "requests": ("static.network", "talks to the network"),
    "subprocess": ("static.process", "starts processes"),
    "multiprocessing": ("static.process", "starts processes"),
    "threading": ("static.threads", "starts threads, whose work may not be finished when forward returns"),
    "_thread": ("static.threads", "starts threads, whose work may not be finished when forward returns"),
    "concurrent": ("static.threads", "starts threads, whose work may not be finished when forward returns"),
    "signal": ("static.process", "handles signals"),
    "atexit": ("static.process", "runs code at the end of the process"),
    "mmap": ("static.memory", "maps memory"),
}
_CALLS = {
    "sys._getframe": ("static.frames", "looks at the frames of its callers"),
    "inspect.currentframe": ("static.frames", "looks at the frames of its callers"),
    "inspect.stack": ("static.frames", "looks at the frames of its callers"),
    "os.fork": ("static.process", "starts processes"),
    "os.system": ("static.process", "starts processes"),
    "os.popen": ("static.process", "starts processes"),
    "os.putenv": ("static.environment", "changes the environment"),
    "os._exit": ("static.process", "ends the process without clean-up"),
    "eval": ("static.generated_code", "runs text as code"),
    "exec": ("static.generated_code", "runs text as code"),
    "torch.set_float32_matmul_precision": ("static.precision_switch", "changes the precision of torch's products"),
}
_ASSIGNED = (
    (
        r"torch\.backends\..*(allow_tf32|fp32_precision|reduced_precision)",
        "static.precision_switch",
        "switches precision",
    ),
    (r"os\.environ\b", "static.environment", "changes the environment"),
    (r"(torch|triton|time|sys|builtins|inspect)\.[\w.]+", "static.patched", "replaces a part of a library"),
)
_NATIVE = {
    r"cudaEvent\w+": ("static.native_events", "uses CUDA events of its own"),
    r"dlsym|dlopen|dlvsym": ("static.native_symbols", "looks up functions by name at run time"),
    r"LD_PRELOAD|mprotect|ptrace|process_vm_\w+": ("static.native_memory", "changes code or memory of a process"),
    r"PyEval_\w+|PyObject_SetAttr\w*|PyGC_\w+|PyFrame_\w+": ("static.native_python", "changes Python from C++"),
    r"std::thread|pthread_create|std::async|cudaLaunchHostFunc": ("static.threads", "starts threads or host callbacks"),
    r"cudaLimitPersistingL2CacheSize|accessPolicyWindow": ("static.l2", "sets L2 cache aside"),
    r"asm\s+volatile\s*\([^)]{0,200}%clock|clock64\s*\(": ("static.native_clock", "reads the device's clock"),
}


@dataclass(frozen=True)
class Finding:
    """One place that is worth a look."""

    code: str
    line: int
    what: str
    """A verb phrase, for `line 3 ...`."""
    text: str
    """The expression."""


def findings(source: str) -> list[Finding]:
    """Everything that was found, in the order of lines."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    try:
        found = {(each.code, each.line): each for each in reversed(list(_walk(tree)))}
    except RecursionError:
        return []
    return sorted(found.values(), key=lambda each: (each.line, each.code))


def warnings(source: str) -> list[Warning_]:
    """The same as warnings, one for each code, with the lines."""
    by_code: dict[str, list[Finding]] = {}
    for each in findings(source):
        by_code.setdefault(each.code, []).append(each)
    return [
        Warning_(
            code=code,
            message=f"Line {each[0].line} {each[0].what} ({each[0].text})"
            + (f", and {len(each) - 1} more" if len(each) > 1 else "")
            + ". For a human reader: this decided nothing.",
            evidence={"lines": [finding.line for finding in each[:_MOST]]},
        )
        for code, each in list(by_code.items())[:_MOST]
    ]


def _walk(tree: ast.Module) -> Iterator[Finding]:
    aliases = _aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for module in modules:
                if hit := _MODULES.get(module.partition(".")[0]):
                    yield _finding(hit, node, f"import {module}")
        elif isinstance(node, ast.Call):
            yield from _call(node, _dotted(node.func, aliases))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            for target in targets:
                yield from _target(target, aliases)
        elif isinstance(node, ast.Subscript):
            key = _dotted(node.slice.func, aliases) if isinstance(node.slice, ast.Call) else ""
            if key.endswith(".data_ptr"):
                yield Finding("static.pointer_key", node.lineno, "keeps something by a tensor's address", key)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 8:
            yield from _native(node)


def _call(node: ast.Call, name: str) -> Iterator[Finding]:
    if hit := _CALLS.get(name):
        yield _finding(hit, node, name)
    elif name == "setattr" and node.args and isinstance(node.args[0], ast.Name | ast.Attribute):
        place = ast.unparse(node.args[0])
        if place.partition(".")[0] in ("torch", "triton", "time", "sys", "builtins"):
            yield Finding("static.patched", node.lineno, "replaces a part of a library", f"setattr({place}, ...)")


def _target(target: ast.expr, aliases: dict[str, str]) -> Iterator[Finding]:
    if isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from _target(item, aliases)
        return
    place = target.value if isinstance(target, ast.Subscript) else target
    if not isinstance(place, ast.Attribute):
        return
    name = _dotted(place, aliases)
    for pattern, code, what in _ASSIGNED:
        if re.fullmatch(pattern, name):
            yield Finding(code, target.lineno, what, name)
            return


def _native(node: ast.Constant) -> Iterator[Finding]:
    text = str(node.value)
    for pattern, hit in _NATIVE.items():
        if match := re.search(rf"\b(?:{pattern})", text):
            line = node.lineno + text.count("\n", 0, match.start())
            yield Finding(hit[0], line, hit[1], match[0][:80])


def _finding(hit: tuple[str, str], node: ast.expr | ast.stmt, text: str) -> Finding:
    return Finding(hit[0], node.lineno, hit[1], text[:80])


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What a name means that an import bound: `t` for `import time as t`, `sync` for a function taken from a module."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return found


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """`a.b.c` with imported names spelled out; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(["?", *reversed(parts)]) if parts else ""
    return ".".join([aliases.get(node.id, node.id), *reversed(parts)])
