"""The build service: a request in, a library in the cache or structured diagnostics out.

    request -> plan -> key -> [cache] -> objects, in parallel -> link -> publish

It never raises for what a submission did; what it raises is its own failure (a full disk, a sandbox that can't start).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from harness.build.cache import BuildCache, CacheEntry
from harness.build.diagnostics import Diagnostic, KernelResources, first_errors_first, parse_compiler_output
from harness.build.flags import FlagNotAllowed
from harness.build.jobs import Slots
from harness.build.outcome import BuildFailure, BuildLimits, BuildOutcome, Recipe
from harness.build.plan import Plan, Unit, make_plan
from harness.build.ptxas import is_resource_line, parse_resources
from harness.build.request import ExtensionRequest
from harness.build.runner import StepResult, plain_file, run_step
from harness.build.toolchain import MissingCompiler, Toolchain, discover
from harness.sandbox.base import Sandbox

RECIPE_VERSION = 1
"""Goes into every key: raise it whenever the same request would be built differently."""
MAX_DIAGNOSTICS = 200
MAX_LOG_CHARS = 256 << 10

OnLine = Callable[[str], None]


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
    ) -> None:
        """`jobs`: compilers at once on this machine, all graders together; by default by cores and memory."""
        self.sandbox = sandbox
        self.cache = cache
        self.limits = limits or BuildLimits()
        self.slots = Slots(cache.root / "slots", jobs)
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
        key = build_key(request, toolchain, plan)
        if entry := self.cache.lookup(key):
            return _from_entry(entry, plan, started, cached=True)
        with self.cache.lock(key):
            if entry := self.cache.lookup(key):
                return _from_entry(entry, plan, started, cached=True)
            outcome = self._build(plan, toolchain, key, started, say)
        self.cache.prune()
        return outcome

    def _build(self, plan: Plan, toolchain: Toolchain, key: str, started: float, say: OnLine) -> BuildOutcome:
        with self.cache.staging() as folder:
            _write_files(plan, toolchain, folder)
            with ThreadPoolExecutor(max_workers=len(plan.units)) as pool:
                jobs = [pool.submit(self._compile, unit, toolchain, folder, say) for unit in plan.units]
                results = [job.result() for job in jobs]
            failure = next((result.failure for result in results if result.failure), None)
            if failure is None and all(result.ok for result in results):
                results.append(self._link(plan, toolchain, folder, say))
                failure = results[-1].failure
            output = "\n".join(result.output for result in results)
            library = folder / "obj" / "library.so"
            built = (
                failure is None
                and all(result.ok for result in results)
                and plain_file(library, self.limits.library_bytes)
            )
            diagnostics = first_errors_first(parse_compiler_output(_shorten(output, folder, toolchain), plan.locate))
            if not built and failure is None:
                failure = _failed(diagnostics)
            meta: dict[str, Any] = {
                "name": plan.module_name,
                "recipe": "full",
                "seconds": time.monotonic() - started,
                "diagnostics": [d.model_dump() for d in diagnostics[:MAX_DIAGNOSTICS]],
                "kernels": [k.model_dump() for k in parse_resources(output)],
                "log": _log(_shorten(output, folder, toolchain)),
                "failure": dataclasses.asdict(failure) if failure else None,
            }
            if not built and failure is not None and failure.code != "build.failed":
                # A limit says something about this machine at this time: not kept.
                return _from_entry(CacheEntry(key, folder, dict(meta, ok=False)), plan, started, cached=False)
            return _from_entry(self.cache.publish(key, library if built else None, meta), plan, started, cached=False)

    def _compile(self, unit: Unit, toolchain: Toolchain, folder: Path, say: OnLine) -> StepResult:
        compiler = toolchain.nvcc if unit.cuda else toolchain.cxx
        argv = [str(compiler), *unit.flags, "-c", unit.source, "-o", f"../obj/{unit.object}"]
        with self.slots.take():
            say(f"compiling {unit.source}")
            return run_step(self.sandbox, toolchain, argv, folder, self.limits, what=unit.source)

    def _link(self, plan: Plan, toolchain: Toolchain, folder: Path, say: OnLine) -> StepResult:
        objects = [f"../obj/{unit.object}" for unit in plan.units]
        late = ["-L../lib"]
        if plan.with_cuda and toolchain.cuda_home is not None:
            late.append(f"-L{toolchain.cuda_home / 'lib64' / 'stubs'}")
        argv = [str(toolchain.cxx), *objects, *plan.link_flags, *late, "-o", "../obj/library.so"]
        with self.slots.take():
            say("linking")
            return run_step(self.sandbox, toolchain, argv, folder, self.limits, what="the link")


def build_key(request: ExtensionRequest, toolchain: Toolchain, plan: Plan) -> str:
    """Content key of a build: everything that decides what comes out."""
    content = {
        "recipe": RECIPE_VERSION,
        "request": request.canonical(),
        "toolchain": toolchain.identity,
        "units": [[unit.source, unit.cuda, *unit.flags] for unit in plan.units],
        "link": plan.link_flags,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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


def _shorten(text: str, folder: Path, toolchain: Toolchain) -> str:
    """Paths as a solver knows them: torch's and the toolkit's headers by their include names, ours not at all."""
    text = text.replace(f"{folder}/src/", "").replace(f"{folder}/", "").replace("../obj/", "")
    for root in (
        toolchain.torch_root / "include" / "torch" / "csrc" / "api" / "include",
        toolchain.torch_root / "include",
    ):
        text = text.replace(f"{root}/", "")
    if toolchain.cuda_home is not None:
        for root in {toolchain.cuda_home, toolchain.cuda_home.resolve()}:
            text = text.replace(f"{root}/include/", "").replace(f"{root}/bin/../targets/x86_64-linux/include/", "")
    return text


def _log(text: str) -> str:
    text = "\n".join(line for line in text.splitlines() if line.strip() and not is_resource_line(line))
    if len(text) > MAX_LOG_CHARS:
        half = MAX_LOG_CHARS // 2
        text = f"{text[:half]}\n... {len(text) - MAX_LOG_CHARS} characters left out ...\n{text[-half:]}"
    return text


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


def _from_entry(entry: CacheEntry, plan: Plan, started: float, *, cached: bool) -> BuildOutcome:
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
    )
