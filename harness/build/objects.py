"""Compiling one translation unit: lean headers first, the full ones where those do not do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.build import lean
from harness.build.diagnostics import parse_compiler_output
from harness.build.explain import readable_kernel
from harness.build.headers import HeaderStore
from harness.build.jobs import Meter, Slots
from harness.build.outcome import BuildLimits
from harness.build.plan import Plan, Unit
from harness.build.runner import StepResult, run_step
from harness.build.toolchain import Toolchain
from harness.sandbox.base import Mount, Sandbox

OnLine = Callable[[str], None]
RecipeName = Literal["lean", "full"]
_MANGLED = re.compile(r"_Z[A-Za-z0-9_.$]{1,4000}")


@dataclass(frozen=True)
class Compiled:
    """One object, or why there is none."""

    unit: Unit
    recipe: RecipeName
    result: StepResult


@dataclass(frozen=True)
class Compiler:
    """Runs the compilers of one build."""

    sandbox: Sandbox
    toolchain: Toolchain
    limits: BuildLimits
    slots: Slots
    headers: HeaderStore
    folder: Path
    """The build's own folder, as plan.py draws it."""
    say: OnLine
    use_lean: bool = True
    meter: Meter = field(default_factory=Meter)

    def compile(self, unit: Unit, index: int, plan: Plan) -> Compiled:
        """Compile a unit. The errors of a lean attempt are nobody's business: they may be the headers'."""
        if self.use_lean and (flags := self._lean_flags(unit, index, plan.files)) is not None:
            tried = self._run(unit, flags, f"compiling {unit.source}", (self.headers.mount(),))
            if tried.ok or tried.failure is not None:
                return Compiled(unit, "lean", tried)
            first = next((d for d in parse_compiler_output(tried.output) if d.severity == "error"), None)
            self.say(f"{unit.source} needs more than the lean headers: {first.message if first else 'no message'}")
        result = self._run(unit, unit.flags, f"compiling {unit.source} with torch's full headers", ())
        return Compiled(unit, "full", result)

    def link(self, plan: Plan) -> StepResult:
        """Link the objects as torch does, with undefined symbols told of."""
        objects = [f"../obj/{unit.object}" for unit in plan.units]
        # What torch's link leaves for the import to find: here they are warnings, and objects stay linkable.
        told = ["-Wl,-z,defs", "-Wl,--warn-unresolved-symbols"]
        late = ["-L../lib"]
        if plan.with_cuda and self.toolchain.cuda_home is not None:
            late.append(f"-L{self.toolchain.cuda_home / 'lib64' / 'stubs'}")
        argv = [str(self.toolchain.cxx), *objects, *plan.link_flags, *late, *told, "-o", "../obj/library.so"]
        with self.slots.take(), self.meter.runs():
            self.say("linking")
            return run_step(self.sandbox, self.toolchain, argv, self.folder, self.limits, what="the link")

    def demangled(self, names: list[str]) -> dict[str, str]:
        """Mangled names -> readable ones, as far as c++filt is there and knows them."""
        # They were read from what a stranger's compile printed; only real names become arguments.
        names = [name for name in names if _MANGLED.fullmatch(name)]
        if not names:
            return {}
        argv = ["/usr/bin/c++filt", *names]
        done = run_step(self.sandbox, self.toolchain, argv, self.folder, self.limits, what="c++filt")
        lines = done.output.splitlines()
        if not done.ok or len(lines) != len(names):
            return {}
        return {name: readable_kernel(line) for name, line in zip(names, lines, strict=True)}

    def _run(self, unit: Unit, flags: tuple[str, ...], saying: str, mounts: tuple[Mount, ...]) -> StepResult:
        compiler = self.toolchain.nvcc if unit.cuda else self.toolchain.cxx
        argv = [str(compiler), *flags, "-c", unit.source, "-o", f"../obj/{unit.object}"]
        with self.slots.take(), self.meter.runs():
            self.say(saying)
            return run_step(
                self.sandbox, self.toolchain, argv, self.folder, self.limits, what=unit.source, mounts=mounts
            )

    def _lean_flags(self, unit: Unit, index: int, files: Mapping[str, str]) -> tuple[str, ...] | None:
        """Flags that put the lean headers before the full ones; None where the unit is better compiled in full."""
        # Any file of the request may be part of any unit; a source that is a unit of its own seldom is.
        others = [text for name, text in files.items() if name != unit.source and not name.endswith((".cu", ".cpp"))]
        header = self.headers.lean.unit_header([files[unit.source], *others], cuda=unit.cuda)
        folder = self.headers.lean_folder() if header is not None else None
        if header is None or folder is None:
            return None
        own = self.folder / "lean" / str(index)
        own.mkdir(parents=True)
        (own / lean.UNIT_HEADER).write_text(header, "utf-8")
        flags = ("-isystem", str(folder), *lean.FLAGS, *unit.flags)
        first: tuple[str, ...] = ()
        if not unit.cuda and unit.precompile:
            precompiled = self.headers.precompiled(flags, files[unit.source])
            if precompiled is not None:
                first = ("-include", str(precompiled), "-include", f"../lean/{index}/{lean.UNIT_HEADER}")
        return (*first, "-isystem", f"../lean/{index}", *flags)
