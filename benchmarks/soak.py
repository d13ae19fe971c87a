"""Many gradings, a third of them hostile; then what is left behind, and whether honest times stayed what they were.

    python -m benchmarks.soak [--gradings 200] [--device auto|cpu|cuda[:N]] [--sandbox NAME]

Two in three are the honest `wave` of the corpus, timed. Between them come its worst neighbours: exits, signals, loops
without end, memory, processes, files and output without end, orphans, and on a GPU kernels that never end, stray
writes and all of the device's memory. Ends with exit code 1 when an ending is not as the corpus says, when a process, a
file, a descriptor, a lock or memory of the device is left, or when honest gradings that follow a hostile one are slower
than the others.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from harness import grade
from harness.machine.device import Device, open_device
from harness.machine.locks import DeviceBusy, DeviceLock
from harness.selftest.corpus import Case, default_folder, load_corpus
from harness.selftest.ending import Outcome, ended
from harness.selftest.running import isolates

HOSTILE = (
    *("clean_exit", "ended_by_signal", "endless_loop", "signal_traps", "much_memory", "shared_memory"),
    *("many_processes", "full_disk", "much_output", "orphans", "kills_neighbours"),
    *("endless_kernel", "illegal_access", "device_memory"),
)
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: orphans of our descendants become our children, and so are seen."""
_SLOWER = {"cuda": 1.05, "cpu": 1.5}
"""Times the usual median that honest gradings after hostile ones may take."""
_DEVICE_MB = 64


def main() -> int:
    """Grade, then look at what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradings", type=int, default=200)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sandbox", default=None)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not isolates(arguments.sandbox):
        sys.exit("no sandbox isolates here: this would harm the machine")
    device = open_device(arguments.device)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        tempfile.tempdir = folder
        soak = Soak(device, arguments.sandbox, Path(folder))
        soak.run(arguments.gradings, random.Random(arguments.seed))
        return soak.judge()


class Soak:
    """The gradings of one run and what they left."""

    def __init__(self, device: Device, sandbox: str | None, folder: Path) -> None:
        self.device, self.sandbox, self.folder = device, sandbox, folder
        cases = {case.name: case for case in load_corpus(default_folder()).cases(device.kind)}
        self.honest = cases["honest/wave"]
        self.hostile = [cases[name] for name in (f"process/{each}" for each in HOSTILE) if name in cases]
        self.wrong: list[str] = []
        self.usual_us: list[float] = []
        self.after_us: list[float] = []

    def run(self, gradings: int, draw: random.Random) -> None:
        """One honest grading first: what every grading keeps for later (caches, a CUDA context) is no leftover."""
        self._grade(self.honest)
        self.before, self.used_mb = self._state(), self._used_mb()
        follows_hostile = False
        for number in range(gradings):
            hostile = number % 3 == 2
            case = self.hostile[(number // 3) % len(self.hostile)] if hostile else self.honest
            if number % (3 * len(self.hostile)) == 0:
                draw.shuffle(self.hostile)
            outcome = self._grade(case)
            result = ended(case, outcome)
            if not result.good:
                self.wrong.append(f"{case.name}: {result.status.value}: {result.why}")
            if not hostile and outcome.median_us is not None:
                (self.after_us if follows_hostile else self.usual_us).append(outcome.median_us)
            follows_hostile = hostile
            print(f"[{number + 1}/{gradings}] {case.name}: {outcome.reason}, {outcome.seconds} s", flush=True)

    def judge(self) -> int:
        """Print what was found; 1 when something was."""
        time.sleep(1.0)
        now = self._state()
        left = [f"{name}: {now[name] - self.before[name]}" for name in self.before if now[name] - self.before[name]]
        found = [*self.wrong, *left, *self._device_memory(), *self._lock()]
        for line in found:
            print(f"LEFT OR WRONG  {line}")
        found += self._times()
        print("nothing is left" if not found else f"{len(found)} findings")
        return 1 if found else 0

    def _grade(self, case: Case) -> Outcome:
        began = time.monotonic()
        report = grade(
            case.problem,
            case.path,
            device=self.device.torch_name,
            mode="run" if case.entry.mode == "run" else "check",
            workload=case.entry.workload,
            sandbox=self.sandbox,
            budget_s=0.5,
        )
        timing = report.timing
        return Outcome(
            verdict=report.verdict.value,
            reason=report.reason.code,
            message=report.reason.message,
            median_us=None if timing is None else timing.candidate.median_us,
            speedup=None if timing is None else timing.speedup,
            seconds=round(time.monotonic() - began, 1),
        )

    def _state(self) -> dict[str, set[str]]:
        gc.collect()
        children = psutil.Process().children(recursive=True)
        shared = Path("/dev/shm")
        return {
            "processes": {f"{child.pid} {child.name()}" for child in children if child.status() != "zombie"},
            "files": {str(path) for path in self.folder.rglob("*") if "harness-locks" not in str(path)},
            "shared memory": {path.name for path in shared.iterdir()} if shared.is_dir() else set(),
            "descriptors": {f"{fd} -> {_target(fd)}" for fd in os.listdir("/proc/self/fd") if _target(fd)},
        }

    def _used_mb(self) -> float:
        """Of the device's memory, besides what torch holds for this process."""
        if self.device.kind != "cuda":
            return 0.0
        import torch

        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(self.device.torch_name)
        return (total - free - torch.cuda.memory_reserved(self.device.torch_name)) / 1e6

    def _device_memory(self) -> list[str]:
        used = self._used_mb()
        if self.device.kind == "cuda":
            print(f"device memory in use: {used:.0f} MB, {self.used_mb:.0f} MB before")
        return [f"device memory: {used - self.used_mb:.0f} MB"] if used > self.used_mb + _DEVICE_MB else []

    def _lock(self) -> list[str]:
        try:
            with DeviceLock(self.device.uuid or self.device.kind, wait=False).held():
                return []
        except DeviceBusy as busy:
            return [f"lock: {busy}"]

    def _times(self) -> list[str]:
        if not self.usual_us or not self.after_us:
            return []
        usual, after = statistics.median(self.usual_us), statistics.median(self.after_us)
        print(f"honest, usually:         {_spread(self.usual_us)}")
        print(f"honest, after a hostile: {_spread(self.after_us)}")
        allowed = usual * _SLOWER[self.device.kind]
        return (
            [] if after <= allowed else [f"honest gradings after hostile ones take {after / usual:.3f} times as long"]
        )


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    low, high = ordered[len(values) // 10], ordered[-1 - len(values) // 10]
    return f"median {statistics.median(values):.2f} us, 10 to 90 % {low:.2f} to {high:.2f} us, {len(values)} gradings"


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the listing's own
        return ""


if __name__ == "__main__":
    sys.exit(main())
