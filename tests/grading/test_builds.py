"""A submission's build requests: how many, for how long, and what is refused."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, cast

import pytest

from harness.build.diagnostics import Diagnostic
from harness.build.outcome import BuildOutcome
from harness.build.service import BuildService
from harness.grading.builds import Builds, build_info

BUILT = BuildOutcome(
    ok=True,
    library=None,
    module_name="ext",
    key="k",
    cached=True,
    seconds=1.0,
    recipe="lean",
    diagnostics=[],
    log="",
    kernels=[],
)
CPP: dict[str, Any] = {"kind": "load_inline", "name": "ext", "cpp_sources": ["int f();"]}
CUDA: dict[str, Any] = {"kind": "load_inline", "name": "ext", "cuda_sources": ["__global__ void f() {}"]}


class Service:
    """Builds everything at once."""

    def __init__(self, seconds: float = 1.0, waited_s: float = 0.0) -> None:
        self.asked = 0
        self.seconds, self.waited_s = seconds, waited_s
        self.built = BUILT

    def build(self, *_: object, **__: object) -> BuildOutcome:
        self.asked += 1
        return dataclasses.replace(self.built, seconds=self.seconds, compiled_s=self.seconds - self.waited_s)


def builds(service: Service, outcomes: list[BuildOutcome], **changes: Any) -> Builds:
    settings: dict[str, Any] = {"device": "cpu", "arch": None, "cuda_on_cpu": False, "limit_s": 1000.0}
    settings |= {"aside": contextlib.nullcontext, "say": lambda _: None} | changes
    return Builds(cast(BuildService, service), outcomes, **settings)


def code(outcome: BuildOutcome) -> str | None:
    return None if outcome.failure is None else outcome.failure.code


def test_what_can_be_built_is_built() -> None:
    outcomes: list[BuildOutcome] = []
    assert builds(Service(), outcomes).answer(CPP).ok
    assert build_info(outcomes).cached


def test_a_diagnostic_gets_the_line_of_the_submissions_own_file() -> None:
    text = "\nint one;\nint two\n"
    source = f'import torch\nsource = """{text}"""\n'
    said = [
        Diagnostic(file=file, line=line, column=1, severity="error", message="expected ;")
        for file, line in (("cpp_sources", 3), ("torch/extension.h", 3), ("cpp_sources", None), (None, None))
    ]
    service = Service()
    service.built = dataclasses.replace(BUILT, diagnostics=said)
    outcome = builds(service, [], source=source).answer(CPP | {"cpp_sources": [text]})
    assert [each.submission_line for each in outcome.diagnostics] == [4, None, None, None]


@pytest.mark.parametrize("cached", [True, False])
def test_what_comes_from_the_cache_is_said_to(cached: bool) -> None:
    told: list[str] = []
    service = Service()
    service.built = dataclasses.replace(BUILT, cached=cached)
    builds(service, [], say=told.append).answer(CPP)
    assert told == ["building ext", "ext from the cache"][: 2 if cached else 1]


@pytest.mark.parametrize("claim", [{}, {"kind": "load"}, {**CPP, "extra": 1}, {**CPP, "name": "../x"}])
def test_a_request_that_makes_no_sense_is_refused(claim: dict[str, Any]) -> None:
    service = Service()
    assert code(builds(service, []).answer(claim)) == "build.bad_request"
    assert not service.asked


def test_cuda_sources_are_refused_on_a_cpu_unless_only_compiling() -> None:
    assert code(builds(Service(), []).answer(CUDA)) == "build.needs_cuda"
    assert builds(Service(), [], cuda_on_cpu=True).answer(CUDA).ok
    assert builds(Service(), [], device="cuda").answer(CUDA).ok


@pytest.mark.parametrize("claim", [CPP, {}])
def test_asking_without_end_neither_builds_nor_grows_without_end(claim: dict[str, Any]) -> None:
    service, outcomes = Service(), cast(list[BuildOutcome], [])
    answers = [builds(service, outcomes).answer(claim) for _ in range(500)]
    assert code(answers[-1]) == "build.too_many"
    assert len(outcomes) == 65
    assert service.asked <= 64


def test_all_builds_together_have_a_limit() -> None:
    service, outcomes = Service(seconds=60.0), cast(list[BuildOutcome], [])
    answers = [builds(service, outcomes, limit_s=100.0).answer(CPP) for _ in range(4)]
    assert [code(answer) for answer in answers] == [None, None, "build.time_limit", "build.time_limit"]


def test_waiting_for_the_compilers_of_others_is_not_counted() -> None:
    service, outcomes = Service(seconds=60.0, waited_s=55.0), cast(list[BuildOutcome], [])
    assert all(builds(service, outcomes, limit_s=100.0).answer(CPP).ok for _ in range(4))


def test_the_device_is_lent_out_while_something_compiles() -> None:
    lent: list[str] = []

    @contextlib.contextmanager
    def aside() -> Any:
        lent.append("out")
        yield
        lent.append("back")

    builds(Service(), [], aside=aside).answer(CPP)
    assert lent == ["out", "back"]
