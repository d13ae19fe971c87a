"""Gradings of the corpus: all that are selected begin together, so that while one is timed others start up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.selftest.corpus import Case
from harness.selftest.ending import Result
from harness.selftest.running import Runner, default_jobs

_HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def ending(request: pytest.FixtureRequest) -> Iterator[Callable[[Case], Result]]:
    """How an entry of the corpus ends here."""
    ours = [item for item in request.session.items if isinstance(item, pytest.Function) and _HERE in item.path.parents]
    # Other folders have arguments of that name, too.
    chosen = [
        item.callspec.params["case"] for item in ours if "ending" in item.fixturenames and hasattr(item, "callspec")
    ]
    kinds = {case.kind for case in chosen if case.kind == "cpu" or _has_cuda()}
    runners = {kind: Runner(default_jobs(kind), device=kind) for kind in kinds}
    try:
        for kind, runner in runners.items():
            runner.begin([case for case in chosen if case.kind == kind])
        yield lambda case: runners[case.kind].result(case)
    finally:
        for runner in runners.values():
            runner.stop()


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
