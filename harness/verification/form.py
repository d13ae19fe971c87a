"""The folder: what is missing beside what loading already refuses."""

from __future__ import annotations

from typing import Literal

from harness.load.problem import Problem
from harness.verification.subject import Found


def check_form(problem: Problem, found: Found) -> None:
    """Look at the statement and at which workloads are the defaults."""
    if problem.path.is_dir() and not (problem.statement or "").strip():
        found.add(
            "warning",
            "folder.statement",
            "There is no README.md, or it is empty: a solver has nothing to read. Write the statement there.",
        )
    kinds: tuple[Literal["cuda", "cpu"], ...] = ("cuda", "cpu")
    for kind in kinds:
        workload = problem.workload(None, kind)
        if workload.device not in ("any", kind):
            found.add(
                "warning",
                "folder.default_workload",
                f"The default workload for {kind}, {workload.name!r}, is marked as meant for {workload.device}; "
                f"name another under [default_workload] or change its device.",
                workload=workload.name,
                kind=kind,
            )
        elif not workload.timed:
            found.add(
                "warning",
                "folder.default_workload",
                f"The default workload for {kind}, {workload.name!r}, is timed = false: harness run measures nothing "
                "there. Name a timed one under [default_workload].",
                workload=workload.name,
                kind=kind,
            )
