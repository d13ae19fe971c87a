"""What a profile takes, and whether its figures are Nsight Compute's: times and comparisons on the samples.

    python -m benchmarks.profile times [--only NAME ...]     seconds, whole and after the build, with ncu and without
    python -m benchmarks.profile compare [--only NAME ...]   each figure beside ncu's details page, and how far apart
    python -m benchmarks.profile all [--only NAME ...]       both, of the same profiles

To be run on a GPU that nobody else uses, with extensions built once before (`harness compile`). Exit code 1 where a
profile takes longer after the build than it should (15 s with ncu, 5 s without), a figure is more than 5 % off, or the
class differs. `--keep FOLDER` keeps the reports and ncu's pages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ncu_details
from harness.load.expected import load_expected
from harness.profiling.result import KernelProfile, Profile
from harness.report import Report

ROOT = Path(__file__).resolve().parent.parent
WITHIN = 0.05
MOST_S = {"--ncu": 15.0, "--torch": 5.0}
"""For all after the build."""
_LIGHT = "GPU Speed Of Light Throughput"
SHARES = {
    "dram_throughput": (_LIGHT, "DRAM Throughput"),
    "memory_throughput": (_LIGHT, "Memory Throughput"),
    "compute_throughput": (_LIGHT, "Compute (SM) Throughput"),
    "occupancy": ("Occupancy", "Achieved Occupancy"),
    "occupancy_limit": ("Occupancy", "Theoretical Occupancy"),
}
"""Fields of Counters, and where ncu's details page has them in percent."""


class NotProfiled(Exception):
    """There is nothing to compare of a sample; the others go on."""


@dataclass(frozen=True)
class Way:
    """How it is done, for every sample."""

    sandbox: str | None
    keep: Path | None

    def profiled(self, problem: Path, submission: Path, option: str) -> tuple[float, Report]:
        """Seconds of the whole command, and its report. Raises NotProfiled where it holds no profile."""
        command = [sys.executable, "-m", "harness", "profile", str(problem), str(submission), option, "--json", "-"]
        command += [] if self.sandbox is None else ["--sandbox", self.sandbox]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        seconds = time.monotonic() - began
        self.kept(f"{submission.stem}{option}.json", done.stdout)
        try:
            report = Report.model_validate(json.loads(done.stdout))
        except ValueError:
            raise NotProfiled(
                f"{' '.join(command)} printed no report (exit code {done.returncode}):\n{done.stderr[-3000:]}"
            ) from None
        if report.profile is None:
            raise NotProfiled(f"{option}: no profile: {report.verdict.value}, {report.reason.message}")
        return seconds, report

    def kept(self, name: str, text: str) -> None:
        """Keep it, if that was asked for."""
        if self.keep is not None:
            (self.keep / name).write_text(text, encoding="utf-8")


def samples(only: list[str]) -> list[tuple[Path, Path]]:
    """Accepted samples for a GPU."""
    return [
        (ROOT / "problems" / each.problem, ROOT / "submissions" / each.file)
        for each in load_expected(ROOT / "submissions" / "expected.toml")
        if each.device == "cuda" and each.verdict == "accepted" and (not only or Path(each.file).stem in only)
    ]


def looked_at(problem: Path, submission: Path, what: str, way: Way) -> bool:
    """One sample; whether all of it is as it should be."""
    good = True
    for option in ("--ncu", "--torch") if what != "compare" else ("--ncu",):
        try:
            seconds, report = way.profiled(problem, submission, option)
            if what != "compare":
                good &= told(submission, option, seconds, report)
            if what != "times" and option == "--ncu":
                good &= compared(problem, submission, report, way)
        except NotProfiled as error:
            good = False
            print(f"{submission.stem:24s} {error}", flush=True)
    return good


def told(submission: Path, option: str, seconds: float, report: Report) -> bool:
    """A line of times; whether it took no longer than it should, and counted where it should."""
    stages = {stage.name: stage.seconds for stage in report.stages}
    after = sum(took for name, took in stages.items() if name not in ("load", "build"))
    found = report.profile
    assert found is not None
    first = found.findings[0].code if found.findings else "-"
    print(
        f"{submission.stem:24s} {option:8s} {seconds:8.1f} {after:14.1f} {stages.get('profile', 0.0):10.1f} "
        f"{found.counters.launches:8d}  {first}",
        flush=True,
    )
    counted = found.counters.read or option != "--ncu"
    if not counted:
        print(f"{'':24s} {found.counters.why_not}", flush=True)
    return counted and after <= MOST_S[option]


def compared(problem: Path, submission: Path, report: Report, way: Way) -> bool:
    """One sample's table, of its longest kernel; whether all of it is near enough. Raises NotProfiled."""
    assert report.profile is not None
    if not report.profile.counters.read:
        raise NotProfiled(report.profile.counters.why_not)
    try:
        page = ncu_details.run(problem, submission, way.sandbox)
    except RuntimeError as error:
        raise NotProfiled(f"ncu's own page: {error}") from None
    way.kept(f"{submission.stem}.csv", page)
    table = figures(report.profile, ncu_details.read(page))
    print(f"{submission.name}: {report.profile.kernels[0].name}")
    near = True
    for name, ours, theirs in table:
        off = apart(ours, theirs)
        near &= off is not None and off <= WITHIN
        shown = "" if off is None else f"{100 * off:7.2f} %"
        print(f"  {name:24s} {_shown(ours):>14s} {_shown(theirs):>14s} {shown}")
    for finding in report.profile.findings[:1]:
        print(f"  first: {finding.message}")
    sys.stdout.flush()
    return near


def figures(profile: Profile, launches: list[ncu_details.Details]) -> list[tuple[str, Any, Any]]:
    """Name, our figure, ncu's, of the longest kernel that was counted."""
    kernel = next((kernel for kernel in profile.kernels if kernel.counters is not None), None)
    if kernel is None:
        raise NotProfiled("none of the kernels that were counted is one of the longest that the trace shows")
    same = [launch for launch in launches if _base(launch.kernel) == _base(kernel.name)]
    counters = kernel.counters
    assert counters is not None
    found: list[tuple[str, Any, Any]] = []
    for field, (section, metric) in SHARES.items():
        theirs = ncu_details.mean(same, section, metric)
        found.append((field, getattr(counters, field), None if theirs is None else theirs / 100))
    rate = ncu_details.mean(same, "Memory Workload Analysis", "Memory Throughput")
    found.append(("dram_bytes_per_s", counters.dram_bytes_per_s, rate))
    factors = [launch.sector_factor() for launch in same]
    found.append(("sector_factor", counters.sector_factor, sum(factors) / len(factors) if factors else None))
    registers = ncu_details.mean(same, "Launch Statistics", "Registers Per Thread")
    found.append(("registers", kernel.registers, registers))
    return [*found, ("bound", kernel.bound, _bound(kernel, same))]


def apart(ours: Any, theirs: Any) -> float | None:
    """How far apart two figures are, as a share of the larger; None where one is missing."""
    if ours is None or theirs is None:
        return None
    if isinstance(ours, str):
        return 0.0 if ours == theirs else 1.0
    most = max(abs(ours), abs(theirs))
    return abs(ours - theirs) / most if most else 0.0


def _bound(kernel: KernelProfile, launches: list[ncu_details.Details]) -> str | None:
    """What most of the launches are by ncu's own sentence; where it leaves that open, any answer agrees."""
    said = [bound for launch in launches if (bound := launch.bound()) is not None]
    return max(set(said), key=said.count) if said else kernel.bound


def _base(name: str) -> str:
    from harness.audit.kernels import base_name

    return base_name(name)


def _shown(figure: Any) -> str:
    return figure if isinstance(figure, str) else "-" if figure is None else f"{figure:.5g}"


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("times", "compare", "all"))
    parser.add_argument("--only", nargs="*", default=[], help="names of files, without .py")
    parser.add_argument("--sandbox", help="how submissions are confined; default: as `harness profile` does")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to put reports and ncu's pages")
    arguments = parser.parse_args()
    way = Way(arguments.sandbox, arguments.keep)
    if way.keep is not None:
        way.keep.mkdir(parents=True, exist_ok=True)
    if arguments.what != "compare":
        print(f"{'':33s} {'whole s':>8s} {'after build s':>14s} {'profile s':>10s} {'counted':>8s}  first finding")
    # Each is looked at, whatever the one before came to.
    good = [looked_at(problem, submission, arguments.what, way) for problem, submission in samples(arguments.only)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
