"""What `ptxas -v` prints about each kernel, as data.

ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
ptxas info    : Function properties for _Z3addPf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem, 380 bytes cmem[0]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.build.diagnostics import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_PROPERTIES = re.compile(r"Function properties for (?P<name>\S+)")
_STACK = re.compile(r"\b(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"\b(\d+)(?:\+(\d+))? bytes smem")
_CONSTANT = re.compile(r"\b(\d+) bytes cmem\[\d+\]")
_NOISE = re.compile(r"^ptxas info\s*:|^\s+\d+ bytes stack frame")


@dataclass
class _Stack:
    stack: int = 0
    stores: int = 0
    loads: int = 0


def is_resource_line(line: str) -> bool:
    """Whether a line of compiler output is only ptxas's resource report."""
    return bool(_NOISE.match(line))


def parse_resources(text: str, demangle: Callable[[str], str] = lambda name: name) -> list[KernelResources]:
    """Resources of each kernel, in ptxas's order."""
    kernels: list[KernelResources] = []
    current: tuple[str, str] | None = None
    properties_of: str | None = None
    stack = _Stack()
    for line in text.splitlines():
        if match := _ENTRY.search(line):
            current, stack, properties_of = (match["name"], match["arch"]), _Stack(), None
        elif match := _PROPERTIES.search(line):
            properties_of = match["name"]
        elif match := _STACK.search(line):
            # Device functions that were not inlined report properties too; only the kernel's own count for it.
            if current and properties_of in (None, current[0]):
                stack = _Stack(*(int(number) for number in match.groups()))
        elif current and (match := _USED.search(line)):
            name, arch = current
            shared = _SHARED.search(line)
            kernels.append(
                KernelResources(
                    name=demangle(name),
                    arch=arch,
                    registers=int(match[1]),
                    shared_bytes=int(shared[1]) + int(shared[2] or 0) if shared else 0,
                    stack_bytes=stack.stack,
                    spill_store_bytes=stack.stores,
                    spill_load_bytes=stack.loads,
                    constant_bytes=sum(int(number) for number in _CONSTANT.findall(line)),
                )
            )
            current = None
    return kernels
