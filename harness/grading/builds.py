"""A submission's build requests answered: what may be built goes to the builder, the rest is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

from pydantic import ValidationError

from harness.brief import cut
from harness.build.diagnostics import Diagnostic
from harness.build.outcome import BuildFailure, BuildOutcome, FailureCode
from harness.build.plan import labelled
from harness.build.request import ExtensionRequest
from harness.build.service import BuildService
from harness.load.strings import Strings
from harness.report import BuildInfo, ExtensionInfo

_MOST = 64
"""Extensions that one submission may ask for: an import that asks without end has to end."""

_LINE_INFO = "-lineinfo"

_DIAGNOSTICS, _KERNELS = 200, 256
"""In a report, of all builds together."""
_NAME_CHARS = 500


class Builds:
    """The builds of one grading, in the order in which they were asked for."""

    def __init__(
        self,
        service: BuildService,
        outcomes: list[BuildOutcome],
        *,
        device: Literal["cuda", "cpu"],
        arch: str | None,
        cuda_on_cpu: bool,
        limit_s: float,
        aside: Callable[[], AbstractContextManager[None]],
        say: Callable[[str], None],
        line_info: bool = False,
        source: str = "",
    ) -> None:
        """`outcomes` grows with each request. `aside` is entered while something compiles: it lends the device to
        others. `cuda_on_cpu`: whether CUDA sources are built although the grading runs on the CPU. `limit_s` is for all
        builds together. `line_info` has CUDA sources compiled with the lines of their machine code, as another build
        than without. `source` is the submission's text, for the lines that diagnostics are about."""
        self._service = service
        self._outcomes = outcomes
        self._device = device
        self._arch = (arch,) if arch else ()
        self._cuda_on_cpu = cuda_on_cpu
        self._limit_s = limit_s
        self._aside = aside
        self._say = say
        self._line_info = line_info
        self._strings = Strings(source)

    def answer(self, claim: dict[str, Any]) -> BuildOutcome:
        """Answer one request, which may hold anything."""
        if len(self._outcomes) > _MOST:
            return self._outcomes[-1]
        outcome = self._answer(claim)
        self._outcomes.append(outcome)
        return outcome

    def again(self, claim: dict[str, Any]) -> BuildOutcome:
        """The same for another process of the same submission: it finds in the cache what the first had built."""
        return self._answer(claim)

    def _answer(self, claim: dict[str, Any]) -> BuildOutcome:
        if len(self._outcomes) == _MOST:
            return _refused(
                "build.too_many", f"A submission may have {_MOST} extensions built; put more into each of them."
            )
        # What it waited for the compilers of others is not its time.
        spent = sum(outcome.compiled_s for outcome in self._outcomes)
        if spent > self._limit_s:
            return _refused(
                "build.time_limit",
                f"Building took {spent:.0f} s in all, {self._limit_s:g} s are allowed; build less, or with less deeply "
                "nested templates.",
            )
        try:
            request = ExtensionRequest.model_validate(claim)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "request"
            return _refused("build.bad_request", f"The extension can't be built: {place}: {first['msg']}.")
        if self._device == "cpu" and not self._cuda_on_cpu and _wants_cuda(request):
            return _refused("build.needs_cuda", f"the extension {request.name!r} has CUDA sources")
        if self._line_info and _wants_cuda(request):
            flags = (*request.extra_cuda_cflags, _LINE_INFO)
            request = request.model_copy(update={"extra_cuda_cflags": flags})
        self._say(f"building {request.name}")
        with self._aside():
            outcome = self._service.build(request, arch=self._arch, device=self._device)
        if outcome.cached:
            self._say(f"{request.name} from the cache")
        texts = {label: text for text, label, _ in labelled(request)}
        return replace(outcome, diagnostics=[self._placed(each, texts) for each in outcome.diagnostics])

    def _placed(self, said: Diagnostic, texts: dict[str, str]) -> Diagnostic:
        """With the line of the submission's file."""
        text = texts.get(said.file or "")
        at = None if text is None or said.line is None else self._strings.line(text, said.line)
        return said.model_copy(update={"submission_line": at})


def build_info(builds: list[BuildOutcome]) -> BuildInfo:
    """What the report says of them. Of many builds it holds no more than of one: who has more has seen enough."""
    every = [diagnostic for build in builds for diagnostic in build.diagnostics]
    every_kernel = [kernel for build in builds for kernel in build.kernels]
    diagnostics = _worst(every)
    messages = len(every) - len(diagnostics) + sum(build.diagnostics_left_out for build in builds)
    kernels = max(0, len(every_kernel) - _KERNELS) + sum(build.kernels_left_out for build in builds)
    return BuildInfo(
        seconds=round(sum(build.seconds for build in builds), 4),
        cached=bool(builds) and all(build.cached for build in builds),
        extensions=[
            ExtensionInfo(
                name=build.module_name,
                key=build.key,
                cached=build.cached,
                seconds=round(build.seconds, 4),
                recipe=build.recipe,
            )
            for build in builds
        ],
        diagnostics=diagnostics,
        kernels=[
            kernel.model_copy(update={"name": cut(kernel.name, _NAME_CHARS)}) for kernel in every_kernel[:_KERNELS]
        ],
        left_out=[
            f"at least {number} more {what}" if number > 1 else f"at least one more {what.removesuffix('s')}"
            for number, what in ((messages, "messages"), (kernels, "kernels"))
            if number
        ],
    )


def _worst(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """As many as the report holds, in their order: of too many the errors before the warnings, these before notes."""
    if len(diagnostics) <= _DIAGNOSTICS:
        return diagnostics
    ranks = {"error": 0, "warning": 1, "note": 2}
    places = sorted(range(len(diagnostics)), key=lambda place: ranks[diagnostics[place].severity])
    return [diagnostics[place] for place in sorted(places[:_DIAGNOSTICS])]


def _wants_cuda(request: ExtensionRequest) -> bool:
    if request.with_cuda is not None:
        return request.with_cuda
    return bool(request.cuda_sources) or any(file.name.endswith((".cu", ".cuh")) for file in request.sources)


def _refused(code: FailureCode, message: str) -> BuildOutcome:
    return BuildOutcome(
        ok=False,
        library=None,
        module_name="",
        key="",
        cached=False,
        seconds=0.0,
        recipe="none",
        diagnostics=[],
        log="",
        kernels=[],
        failure=BuildFailure(code, message),
    )
