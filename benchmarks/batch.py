"""How many verdicts an hour a batch gives, how busy its devices are meanwhile, and what a batch survives.

    python -m benchmarks.batch [--devices cuda:0] [--submissions 64]     cold, then with builds cached
    python -m benchmarks.batch --devices cuda:0,cuda:1                   also: two devices over one, and their medians
    python -m benchmarks.batch --cpu 300 --kills 10                      memory of one batch, resumed after kill -9

The submissions are new in each run (batch_work.py), so that each build is really cold. What takes the time is the whole
command `harness batch`, imports included. One grading before it is not counted: it makes the toolchain's headers and
measures the device, once in a machine's life. A device is busy while its lock is held, which is looked at a
hundred times a second; beside it what NVML calls utilisation, where there is NVML.

Ends with exit code 1 when not every submission is accepted exactly once, or, for two devices, when a median differs by
more than 1 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.batch_work import KINDS, write_plain, write_work
from harness.batch.store import RESULTS, read_results
from harness.machine.device import Device, open_device
from harness.machine.locks import DeviceLock

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {"cold": 600, "cached": 1500}
"""Verdicts an hour, on one H200 and 16 cores."""


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cuda:0")
    parser.add_argument("--submissions", type=int, default=64)
    parser.add_argument("--overlap", type=int, default=None, help="as for harness batch")
    parser.add_argument("--budget", type=float, default=None, help="as for harness batch")
    parser.add_argument("--cpu", type=int, default=0, help="so many CPU gradings in one batch")
    parser.add_argument("--kills", type=int, default=0, help="with --cpu: kill -9 and resume so often")
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="batch-") as folder:
        if arguments.cpu:
            figures, good = endured(Path(folder), arguments.cpu, arguments.kills, arguments.budget or 0.3)
        else:
            figures, good = rates(Path(folder), arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if good else 1


def rates(folder: Path, arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Cold, cached, and on one device of several."""
    names = arguments.devices.split(",")
    devices = [open_device(name) for name in names]
    kind = devices[0].kind
    salt = time.time_ns() & 0x7FFFFFFF
    extra = ["--overlap", str(arguments.overlap)] if arguments.overlap else []
    extra += ["--budget", str(arguments.budget)] if arguments.budget else []
    with_one = folder / "first"
    write_work(with_one, device=kind, per_problem=1, salt=salt + 100_000)
    for path in list((with_one / "submissions").iterdir())[1:]:
        path.unlink()
    batch(with_one, "first", devices, extra)
    work = folder / "work"
    per_problem = -(-arguments.submissions // len(KINDS))
    write_work(work, device=kind, per_problem=per_problem, salt=salt)
    for path in _spread(work, arguments.submissions):
        path.unlink()
    figures: dict[str, Any] = {"devices": names, "device": devices[0].info.name, "cores": devices[0].info.cores}
    good = True
    print(
        f"{arguments.submissions} submissions to {len(KINDS)} problems on {arguments.devices}, {devices[0].info.name}"
    )
    for what in ("cold", "cached"):
        run = batch(work, what, devices, extra)
        figures[what] = run.told(what, TARGETS[what] if kind == "cuda" and len(devices) == 1 else None)
        good &= run.good(arguments.submissions)
    if len(devices) > 1:
        one = batch(work, "one", devices[:1], extra)
        figures["one device"] = one.told("cached, the first device alone", None)
        ratio = figures["cached"]["an_hour"] / figures["one device"]["an_hour"]
        apart = _apart(run.medians, one.medians)
        figures["ratio"], figures["medians_apart"] = ratio, apart
        largest = max(apart.values(), default=0.0)
        print(f"{len(devices)} devices over one: {ratio:.2f} times; medians apart by at most {100 * largest:.2f} %")
        for name, share in sorted(apart.items(), key=lambda item: -item[1])[:5]:
            print(f"  {name:24s} {100 * share:6.2f} %")
        good &= one.good(arguments.submissions) and largest <= 0.01
    return figures, good


def _spread(work: Path, wanted: int) -> list[Path]:
    """Which submissions are too many: the last ones of the last rounds, so that every problem keeps some."""
    every = sorted((work / "submissions").iterdir(), key=lambda path: int(path.stem.rpartition("_")[2]))
    return every[wanted:]


def _apart(several: dict[str, float], one: dict[str, float]) -> dict[str, float]:
    return {name: abs(several[name] / one[name] - 1) for name in several.keys() & one.keys()}


@dataclass
class Run:
    """One batch that is over."""

    seconds: float
    busy: list[float]
    """Of each device, the share of the wall in which its lock was held."""
    utilisation: list[float]
    """What NVML said, mean over the wall; empty without it."""
    reports: dict[str, Any] = field(repr=False)

    @property
    def medians(self) -> dict[str, float]:
        return {name: report.timing.candidate.median_us for name, report in self.reports.items() if report.timing}

    def good(self, wanted: int) -> bool:
        verdicts = Counter(report.verdict.value for report in self.reports.values())
        if verdicts == {"accepted": wanted}:
            return True
        print(f"  verdicts: {dict(verdicts)}")
        for name, report in self.reports.items():
            if not report.accepted:
                print(f"  {name}: {report.reason.code}: {report.reason.message[:300]}")
        return False

    def told(self, what: str, target: int | None) -> dict[str, Any]:
        an_hour = 3600 * len(self.reports) / self.seconds
        stages: dict[str, list[float]] = {}
        for report in self.reports.values():
            for stage in report.stages:
                stages.setdefault(stage.name, []).append(stage.seconds)
        means = {name: statistics.fmean(seconds) for name, seconds in stages.items()}
        goal = "" if target is None else f" (target {target})"
        busy = ", ".join(f"{100 * share:.0f} %" for share in self.busy)
        said = "" if not self.utilisation else f", NVML {', '.join(f'{share:.0f} %' for share in self.utilisation)}"
        print(f"{what}: {an_hour:.0f} verdicts an hour{goal}, {self.seconds:.1f} s; device busy {busy}{said}")
        print("  mean s: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in means.items()), flush=True)
        return {
            "an_hour": an_hour,
            "seconds": self.seconds,
            "busy": self.busy,
            "nvml_utilisation": self.utilisation,
            "stage_mean_s": means,
            "medians_us": self.medians,
        }


def batch(work: Path, name: str, devices: list[Device], extra: list[str]) -> Run:
    """One whole command. Ends the program where it fails."""
    run = work / name
    command = _command(work, run, ",".join(device.torch_name for device in devices), extra)
    with _watched(devices) as seen:
        began = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    reports = {result.id: result.report for result in read_results(run)}
    return Run(seconds, seen.busy(), seen.utilisation(), reports)


def _command(work: Path, run: Path, devices: str, extra: list[str]) -> list[str]:
    where = ["--problems", str(work / "problems"), "--submissions", str(work / "submissions"), "--out", str(run)]
    return [sys.executable, "-m", "harness", "batch", *where, "--devices", devices, *extra]


class _Seen:
    """What a thread saw of some devices."""

    def __init__(self, devices: list[Device]) -> None:
        self._locks = [DeviceLock(device.uuid or device.kind) for device in devices]
        self._handles = _nvml_handles(devices)
        self._held = [0] * len(devices)
        self._looks = 0
        self._said: list[list[float]] = [[] for _ in self._handles]

    def look(self) -> None:
        self._looks += 1
        for number, lock in enumerate(self._locks):
            self._held[number] += lock.holder() is not None
        if self._looks % 10 == 0 and self._handles:
            import pynvml

            for number, handle in enumerate(self._handles):
                with contextlib.suppress(pynvml.NVMLError):
                    self._said[number].append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)

    def busy(self) -> list[float]:
        return [held / max(1, self._looks) for held in self._held]

    def utilisation(self) -> list[float]:
        return [statistics.fmean(said) for said in self._said if said]


def _nvml_handles(devices: list[Device]) -> list[Any]:
    import pynvml

    try:
        pynvml.nvmlInit()
        return [pynvml.nvmlDeviceGetHandleByUUID(device.uuid) for device in devices if device.uuid]
    except pynvml.NVMLError:
        return []


@contextlib.contextmanager
def _watched(devices: list[Device]) -> Iterator[_Seen]:
    seen, over = _Seen(devices), threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            seen.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def endured(folder: Path, count: int, kills: int, budget_s: float) -> tuple[dict[str, Any], bool]:
    """One batch on the CPU: killed evenly spread over it, its memory looked at."""
    write_plain(folder, count)
    run = folder / "run"
    command = _command(folder, run, "cpu", ["--budget", str(budget_s)])
    starts = [count * (number + 1) // (kills + 1) for number in range(kills)]
    memory: list[list[tuple[int, float]]] = []
    began = time.monotonic()
    for until in [*starts, count + 1]:
        log = (folder / "log").open("ab")
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        memory.append([])
        while process.poll() is None:
            done = _lines(run / RESULTS)
            with contextlib.suppress(psutil.Error):
                memory[-1].append((done, psutil.Process(process.pid).memory_info().rss / 1e6))
            if done >= until:
                process.kill()
            time.sleep(0.2)
        log.close()
        if process.returncode not in (0, -9):
            sys.exit(f"the batch ended with {process.returncode}:\n{(folder / 'log').read_text()[-3000:]}")
        print(f"  {_lines(run / RESULTS)} of {count} after {time.monotonic() - began:.0f} s", flush=True)
    results = list(read_results(run))
    verdicts = Counter(result.report.verdict.value for result in results)
    lines = _lines(run / RESULTS)
    grown = max((_growth(each) for each in memory), default=0.0)
    most = max(rss for each in memory for _, rss in each)
    once = len({result.id for result in results}) == count == lines
    print(f"{count} gradings, killed {kills} times: {lines} results, {'each once' if once else 'NOT each once'}")
    print(f"  {dict(verdicts)}; coordinator at most {most:.0f} MB, grew by {1000 * grown:.1f} kB a result", flush=True)
    seconds = time.monotonic() - began
    figures = {"count": count, "kills": kills, "results": lines, "seconds": seconds, "most_mb": most}
    figures |= {"growth_mb_a_result": grown, "verdicts": dict(verdicts), "cores": len(os.sched_getaffinity(0))}
    return figures, once


def _growth(seen: list[tuple[int, float]]) -> float:
    """MB a result: the slope of a line through what was seen after the first tenth, when all is loaded."""
    rest = seen[len(seen) // 10 :]
    if len({done for done, _ in rest}) < 3:
        return 0.0
    return statistics.linear_regression([done for done, _ in rest], [rss for _, rss in rest]).slope


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
