"""How far the clock can be trusted, on the device at hand.

    python -m benchmarks.clock repeat  [--workloads us5 us65] [--runs 20] [--jobs 3] [--json FILE]
    python -m benchmarks.clock truth   [--workloads us2 us5 us65]

repeat   grades benchmarks/problems/scale again and again, each time in fresh processes: the spread of the reported
         medians, how many intervals hold the median of all, how far the two clocks are apart, seconds of the time stage
truth    the reported time beside the duration that CUPTI gives for the same kernel with cold caches

How attacks on it end says `harness selftest --only timing`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import multiprocessing.util
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.workers.prepared import PreparedWorkers

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = ROOT / "benchmarks" / "problems" / "scale"


def grade_once(submission: str, workload: str) -> dict[str, Any]:
    """One grading in processes of its own, as data. Runs in a process of the pool."""
    from harness import grade

    report = grade(PROBLEM, submission, workload=workload, device="cuda", prepared=_workers())
    return report.model_dump(mode="json")


@functools.cache
def _workers() -> PreparedWorkers:
    """Of this process of the pool: they import torch while another one has the device."""
    from harness import sandbox
    from harness.machine.device import open_device
    from harness.workers.prepared import PreparedWorkers

    workers = PreparedWorkers(open_device("cuda"), sandbox.default(), contexts=False)
    multiprocessing.util.Finalize(None, workers.close, exitpriority=1)
    return workers


def graded(jobs: list[tuple[str, str]], at_once: int) -> list[dict[str, Any]]:
    """Several at once: they wait for the device in turn, while the next ones start their processes."""
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(grade_once, *zip(*jobs, strict=True)))


def seconds_of(report: dict[str, Any], stage: str) -> float:
    """What a stage took."""
    return sum(each["seconds"] for each in report["stages"] if each["name"] == stage)


def repeat(workloads: list[str], runs: int, at_once: int, keep: Path | None) -> None:
    """Print one line a workload; `keep` gets the reports' timings as JSON."""
    kept: dict[str, list[Any]] = {}
    print(f"{'workload':10s} {'runs':>4s} {'median us':>10s} {'lowest':>8s} {'highest':>8s} {'cv %':>6s}", end="")
    print(f" {'covered':>8s} {'+-%':>6s}", end="")
    print(f" {'outside-inside us':>24s} {'tolerance':>9s} {'of single calls':>15s}", end="")
    print(f" {'confirmed':>9s} {'stage s':>8s} {'samples':>7s}")
    for workload in workloads:
        reports = graded([(str(PROBLEM / "scale.py"), workload)] * runs, at_once)
        timings = [timing for report in reports if (timing := report["timing"]) and report["verdict"] == "accepted"]
        kept[workload] = timings
        if keep is not None:
            keep.write_text(json.dumps(kept))
        if len(timings) < len(reports):
            print(f"{workload}: {len(reports) - len(timings)} of {len(reports)} gradings were not accepted:")
            print({report["reason"]["code"]: report["reason"]["message"] for report in reports})
        if len(timings) < 2:
            continue
        medians = [timing["candidate"]["median_us"] for timing in timings]
        middle = statistics.median(medians)
        # One that could not be made has the text Infinity for an end.
        intervals = [tuple(map(float, timing["candidate"]["ci95_us"])) for timing in timings]
        covered = sum(low <= middle <= high for low, high in intervals)
        width = statistics.median((high - low) / (high + low) for low, high in intervals)
        looks = [timing["outside"] for timing in timings if timing["outside"] is not None]
        apart = [look["outside_us"] - look["inside_us"] for look in looks] or [math.nan]
        alone = [
            look["single_outside_us"] - look["single_us"]
            for look in looks
            if look["single_outside_us"] is not None and look["single_us"] is not None
        ] or [math.nan]
        tolerance = statistics.median([look["tolerance_us"] for look in looks] or [math.nan])
        confirmed = sum(look["confirmed"] for look in looks)
        stage = statistics.median(seconds_of(report, "time") for report in reports)
        samples = statistics.median(len(timing["candidate"]["samples_us"]) for timing in timings)
        print(f"{workload:10s} {len(timings):4d} {middle:10.3f} {min(medians):8.3f} {max(medians):8.3f}", end="")
        print(
            f" {100 * statistics.stdev(medians) / middle:6.2f} {covered:5d}/{len(timings)} {100 * width:6.2f}", end=""
        )
        print(f" {min(apart):6.2f} .. {statistics.median(apart):5.2f} .. {max(apart):5.2f} {tolerance:8.2f}", end="")
        print(f" {min(alone):6.2f} .. {max(alone):5.2f}", end="")
        print(f" {confirmed:6d}/{len(timings)} {stage:8.2f} {samples:7.0f}", flush=True)
        if said := {warning["code"] for report in reports for warning in report["warnings"]}:
            print(f"{workload}: warnings of one or more: {', '.join(sorted(said))}", flush=True)


def cupti_us(workload: str) -> float:
    """Median duration that CUPTI gives for the one kernel of scale.py, L2 filled with something else before each."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from harness.load.problem import Problem

    problem = Problem.load(PROBLEM)
    elements = int(str(problem.workload(workload, "cuda").sizes["elements"]))
    x = torch.randn(elements, device="cuda")
    filler = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        x * 2.0
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(60):
            filler.zero_()
            x * 2.0
        torch.cuda.synchronize()
    kernels = [
        event for event in seen.events() if "elementwise" in event.name.lower() and "fill" not in event.name.lower()
    ]
    return statistics.median(event.device_time for event in kernels)


def truth(workloads: list[str], at_once: int) -> None:
    """Print one line a workload."""
    print(f"{'workload':10s} {'reported us':>12s} {'CUPTI us':>10s} {'apart us':>9s} {'apart %':>8s}")
    for workload in workloads:
        reports = graded([(str(PROBLEM / "scale.py"), workload)] * at_once, at_once)
        timings = [timing for report in reports if (timing := report["timing"]) and report["verdict"] == "accepted"]
        if not timings:
            print(f"{workload}: not accepted: {reports[0]['reason']['message']}")
            continue
        reported = statistics.median(timing["candidate"]["median_us"] for timing in timings)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            told = pool.submit(cupti_us, workload).result()
        print(f"{workload:10s} {reported:12.3f} {told:10.3f} {reported - told:9.3f} {100 * (reported / told - 1):8.2f}")


def main() -> int:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("repeat", "truth"))
    parser.add_argument("--workloads", nargs="+", default=["us5", "us65"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=3, help="gradings at once")
    parser.add_argument("--json", type=Path, default=None, help="for the timings of all gradings, samples and all")
    arguments = parser.parse_args()
    if arguments.what == "repeat":
        repeat(arguments.workloads, arguments.runs, arguments.jobs, arguments.json)
    else:
        truth(arguments.workloads, arguments.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
