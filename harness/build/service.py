"""The build service: a request in, a library in the cache or structured diagnostics out.

    request -> plan -> key -> [cache] -> objects, in parallel -> link -> publish

It never raises for what a submission did; what it raises is its own failure (a full disk, a sandbox that can't start).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from harness.build.cache import BuildCache, CacheEntry
from harness.build.diagnostics import Diagnostic, KernelResources
from harness.build.explain import bounded, explain, linker_words, shorten
from harness.build.flags import FlagNotAllowed
from harness.build.headers import HeaderStore, touch
from harness.build.jobs import Slots
from harness.build.lean import LEAN_VERSION
from harness.build.objects import Compiled, Compiler, OnLine
from harness.build.outcome import BuildFailure, BuildLimits, BuildOutcome, Recipe
from harness.build.plan import Plan, make_plan
from harness.build.ptxas import is_resource_line, parse_resources
from harness.build.request import ExtensionRequest
from harness.build.runner import plain_file
from harness.build.toolchain import MissingCompiler, Toolchain, discover
from harness.build.tracked import TrackedSandbox
from harness.sandbox.base import Sandbox

RECIPE_VERSION = 1
"""Goes into every key: raise it whenever the same request would be built differently."""
MAX_DIAGNOSTICS = 200
MAX_KERNELS = 256
MAX_LOG_CHARS = 256 << 10


class BuildService:
    """Builds extensions in a sandbox, each content once. Safe to use from several threads and processes at once."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        cache: BuildCache,
        limits: BuildLimits | None = None,
        jobs: int | None = None,
        toolchain: Toolchain | None = None,
        use_lean: bool = True,
    ) -> None:
        """`jobs`: compilers at once on this machine, all graders together; by default by cores and memory.

        `use_lean` off compiles with torch's full headers at once; the outcome is the same, later.
        """
        self.sandbox = sandbox
        self.cache = cache
        self.limits = limits or BuildLimits()
        self.slots = Slots(cache.root / "slots", jobs)
        self.use_lean = use_lean
        self._toolchain = toolchain

    def build(
        self,
        request: ExtensionRequest,
        *,
        arch: tuple[str, ...],
        device: Literal["cuda", "cpu"],
        on_line: OnLine | None = None,
    ) -> BuildOutcome:
        """Build, or find built. `arch`: capabilities to compile CUDA for, such as ("9.0",); `on_line` gets progress."""
        started = time.monotonic()
        say = on_line or (lambda _: None)
        try:
            toolchain = self._toolchain or discover()
            plan = make_plan(request, toolchain, arch)
        except FlagNotAllowed as error:
            evidence = {"flag": error.flag, "where": error.where}
            return _refused(request, started, BuildFailure("build.flag_not_allowed", str(error), evidence))
        except MissingCompiler as error:
            failure = BuildFailure("build.no_compiler", str(error), {"missing": error.missing, "device": device})
            return _refused(request, started, failure)
        key = build_key(request, toolchain, plan, use_lean=self.use_lean)
        if entry := self.cache.lookup(key):
            return _from_entry(entry, plan, started, cached=True)
        with self.cache.lock(key):
            if entry := self.cache.lookup(key):
                return _from_entry(entry, plan, started, cached=True)
            outcome = self._build(plan, toolchain, key, started, say)
        self.cache.prune()
        return outcome

    def _build(self, plan: Plan, toolchain: Toolchain, key: str, started: float, say: OnLine) -> BuildOutcome:
        sandbox = TrackedSandbox(self.sandbox)
        headers = HeaderStore(self.cache, toolchain, sandbox, self.limits, self.slots)
        with self.cache.staging() as folder:
            _write_files(plan, toolchain, folder)
            compiler = Compiler(
                sandbox, toolchain, self.limits, self.slots, headers, folder, say, use_lean=self.use_lean
            )
            with ThreadPoolExecutor(max_workers=len(plan.units)) as pool:
                jobs = [pool.submit(compiler.compile, unit, index, plan) for index, unit in enumerate(plan.units)]
                try:
                    objects = [job.result() for job in jobs]
                except BaseException:
                    # Leaving the pool waits for its threads, and they for their compilers.
                    sandbox.end()
                    raise
            results = [each.result for each in objects]
            failure = next((result.failure for result in results if result.failure), None)
            if failure is None and all(result.ok for result in results):
                linked = compiler.link(plan)
                results.append(dataclasses.replace(linked, output=linker_words(bounded(linked.output))))
                failure = linked.failure
            library = folder / "obj" / "library.so"
            built = failure is None and all(result.ok for result in results)
            built = built and plain_file(library, self.limits.library_bytes)
            output = "\n".join(result.output for result in results)
            shown = shorten(bounded(output), folder, toolchain)
            every_kernel = parse_resources(bounded(output))
            readable = compiler.demangled([kernel.name for kernel in every_kernel[:MAX_KERNELS]])
            kernels = [k.model_copy(update={"name": readable.get(k.name, k.name)}) for k in every_kernel[:MAX_KERNELS]]
            report = explain(shown, plan, kernels)
            if failure is None and (not built or report.fatal):
                built = False
                failure = _failed(report.diagnostics)
            meta: dict[str, Any] = {
                "name": plan.module_name,
                "recipe": _recipe(objects),
                "seconds": time.monotonic() - started,
                "diagnostics": [d.model_dump() for d in report.diagnostics[:MAX_DIAGNOSTICS]],
                "diagnostics_left_out": max(0, len(report.diagnostics) - MAX_DIAGNOSTICS),
                "kernels": [k.model_dump() for k in report.kernels],
                "kernels_left_out": max(0, len(every_kernel) - MAX_KERNELS),
                "log": _log(shown),
                "failure": dataclasses.asdict(failure) if failure else None,
            }
            touch(headers.folder)
            if failure is not None and not _lasting(failure, output):
                entry = CacheEntry(key, folder, dict(meta, ok=False))
            else:
                entry = self.cache.publish(key, library if built else None, meta)
            return _from_entry(entry, plan, started, cached=False, compiled_s=compiler.meter.seconds)


def _lasting(failure: BuildFailure, output: str) -> bool:
    """Whether it would fail again: what says something about this machine at this time alone is not kept.

    A limit does, a compiler that ended without a word, and a full disk, which may be anybody's doing.
    """
    return failure.code == "build.failed" and bool(failure.evidence) and _NO_SPACE not in output


def build_key(request: ExtensionRequest, toolchain: Toolchain, plan: Plan, *, use_lean: bool = True) -> str:
    """Content key of a build: everything that decides what comes out."""
    content = {
        "recipe": [RECIPE_VERSION, LEAN_VERSION, use_lean],
        "request": request.canonical(),
        "toolchain": toolchain.identity,
        "units": [[unit.source, unit.cuda, *unit.flags] for unit in plan.units],
        "link": plan.link_flags,
        "machine": _processor() if any("native" in flag for unit in plan.units for flag in unit.flags) else "",
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _processor() -> str:
    """What `-march=native` means on this machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(("model name", "flags", "Features"))))


def _recipe(objects: list[Compiled]) -> Recipe:
    recipes = {each.recipe for each in objects}
    return "mixed" if len(recipes) > 1 else recipes.pop()


def _write_files(plan: Plan, toolchain: Toolchain, folder: Path) -> None:
    for name in ("src", "obj", "tmp", "lib"):
        (folder / name).mkdir()
    for name, text in plan.files.items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    if plan.with_cuda:
        for libraries in toolchain.wheel_libraries:
            for library in libraries.glob("lib*.so.*"):
                link = folder / "lib" / f"{library.name.split('.so')[0]}.so"
                if not link.is_symlink():
                    link.symlink_to(library)


def _log(text: str) -> str:
    text = "\n".join(line for line in text.splitlines() if line.strip() and not is_resource_line(line))
    if len(text) > MAX_LOG_CHARS:
        half = MAX_LOG_CHARS // 2
        text = f"{text[:half]}\n... {len(text) - MAX_LOG_CHARS} characters left out ...\n{text[-half:]}"
    return text


_NO_SPACE = "No space left on device"


def _failed(diagnostics: list[Diagnostic]) -> BuildFailure:
    errors = [d for d in diagnostics if d.severity == "error"]
    if not errors:
        return BuildFailure(
            "build.failed", "The compiler ended without a library and without an error message; see the log."
        )
    first = errors[0]
    place = f"{first.file}:{first.line}: " if first.file and first.line else f"{first.file}: " if first.file else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return BuildFailure("build.failed", f"{place}{first.message}{more}", {"errors": len(errors)})


def _refused(request: ExtensionRequest, started: float, failure: BuildFailure) -> BuildOutcome:
    return BuildOutcome(
        ok=False, library=None, module_name=request.name, key="", cached=False, seconds=time.monotonic() - started,
        recipe="none", diagnostics=[], log="", kernels=[], failure=failure,
    )  # fmt: skip


def _from_entry(
    entry: CacheEntry, plan: Plan, started: float, *, cached: bool, compiled_s: float = 0.0
) -> BuildOutcome:
    meta = entry.meta
    recipe: Recipe = meta["recipe"]
    return BuildOutcome(
        ok=bool(meta["ok"]),
        library=entry.library,
        module_name=plan.module_name,
        key=entry.key,
        cached=cached,
        seconds=time.monotonic() - started,
        recipe=recipe,
        diagnostics=[Diagnostic.model_validate(d) for d in meta["diagnostics"]],
        log=meta["log"],
        kernels=[KernelResources.model_validate(k) for k in meta["kernels"]],
        failure=BuildFailure(**meta["failure"]) if meta["failure"] else None,
        # What was built before these were counted says nothing of them.
        diagnostics_left_out=meta.get("diagnostics_left_out", 0),
        kernels_left_out=meta.get("kernels_left_out", 0),
        compiled_s=compiled_s,
    )
