"""Nsight Compute's own report of a submission's kernels: its details page, run and read apart from the profiler's way.

The page is what a person sees in `ncu`: figures rounded by ncu, and the sentences of its rules. Only the way to a call
is shared with the profiler: the same worker, sandbox and marks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness import sandbox as sandboxes
from harness.build.cache import BuildCache
from harness.build.outcome import BuildLimits
from harness.build.service import BuildService
from harness.check.oracle import Oracle
from harness.grading.builds import Builds
from harness.load.problem import Problem
from harness.machine.device import open_device
from harness.machine.locks import DeviceLock
from harness.profiling import ncu
from harness.profiling.counted import Subject, call_once
from harness.seeds import Seeds
from harness.workers.process import Terms, WorkerProcess
from harness.workers.worker import Worker, WorkerFailure

SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "SourceCounters")
READING = ("--page", "details", "--print-units", "base", *(part for name in SECTIONS for part in ("--section", name)))
_BOUNDS = (
    (r"Memory is more heavily utilized than Compute", "memory"),
    (r"Compute is more heavily utilized than Memory", "compute"),
    (r"low compute throughput and memory bandwidth utilization|indicate latency issues", "latency"),
)


@dataclass
class Details:
    """One launch on the details page."""

    kernel: str
    figures: dict[tuple[str, str], float] = field(default_factory=dict)
    """By section and metric, in base units."""
    rules: list[str] = field(default_factory=list)
    """What its rules say."""

    def bound(self) -> str | None:
        """What ncu's summary calls it; None where it leaves that open (well balanced, or above 80 %)."""
        text = " ".join(self.rules)
        return next((bound for pattern, bound in _BOUNDS if re.search(pattern, text)), None)

    def sector_factor(self) -> float:
        """Sectors over those that are not excessive, from its rule on uncoalesced accesses; 1 where it says nothing."""
        for rule in self.rules:
            match = re.search(r"total of (\d+) excessive sectors \(\d+% of the total (\d+)\s*sectors", rule)
            if match and int(match[2]) > int(match[1]):
                return int(match[2]) / (int(match[2]) - int(match[1]))
        return 1.0


def read(text: str) -> list[Details]:
    """The launches of a details page as CSV, in order."""
    table = [line for line in text.splitlines() if line.startswith('"')]
    found: dict[str, Details] = {}
    for row in csv.DictReader(table):
        launch = found.setdefault(row["ID"], Details(row["Kernel Name"]))
        if row.get("Rule Description"):
            launch.rules.append(row["Rule Description"])
        try:
            figure = float(row["Metric Value"].replace(",", ""))
        except (ValueError, AttributeError):
            continue
        launch.figures[row["Section Name"], row["Metric Name"]] = figure
    return list(found.values())


def run(problem_path: Path, submission_path: Path, sandbox: str | None = None) -> str:
    """The page of one call, on the first GPU. Raises RuntimeError where ncu read nothing."""
    tool = ncu.find()
    if tool is None:
        raise RuntimeError("there is no ncu on PATH or in CUDA_HOME")
    problem, device = Problem.load(problem_path), open_device("cuda")
    submission = problem.submission(submission_path)
    confined, limits = sandboxes.chosen(sandbox), problem.spec.limits
    lock = DeviceLock(device.lock_name, lambda: None)
    builds = Builds(
        BuildService(confined, cache=BuildCache(), limits=BuildLimits(step_s=limits.build_s)),
        [],
        device="cuda",
        arch=device.arch,
        cuda_on_cpu=False,
        limit_s=limits.build_s,
        aside=lock.paused,
        say=lambda what: None,
    )
    seeds = Seeds(None)
    terms = Terms(confined, device.place, limits.memory_gb)
    with ncu.page() as page, lock.held():
        process = WorkerProcess(terms, memory_bytes=terms.memory_bytes(), wrapper=page.wrapper(tool, READING))
        with Worker(
            process, device, flush_bytes=0, patience_s=600.0, on_build=builds.answer, share_device=False
        ) as worker:
            oracle = Oracle(problem, problem.workload(None, "cuda"), worker.torch_device)
            seeds.parameters()
            seeds.draw()
            try:
                program = problem.program_of(submission)
                call_once(worker, Subject(program, seeds, limits, confined.name), oracle)
                worker.leave(60.0)
            except WorkerFailure as failure:
                raise RuntimeError(f"{failure}; {ncu.why_nothing(page.text() + worker.log, confined.name)}") from None
        return page.text()


def mean(launches: list[Details], section: str, metric: str) -> float | None:
    """Over launches, weighted by their time."""
    pairs = list(_weighted(launches, section, metric))
    weight = sum(time for _, time in pairs)
    return sum(value * time for value, time in pairs) / weight if weight else None


def _weighted(launches: list[Details], section: str, metric: str) -> Iterator[tuple[float, float]]:
    for launch in launches:
        value = launch.figures.get((section, metric))
        if value is not None:
            yield value, launch.figures.get(("GPU Speed Of Light Throughput", "Duration"), 1.0)
