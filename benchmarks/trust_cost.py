"""What trust costs: time to verdict as it is, over the same grading without sandbox and audits, in the same run.

    python -m benchmarks.trust_cost [--device auto|cpu|cuda[:N]] [--rounds 5] [--only NAME ...] [--json FILE]

Each sample that expected.toml accepts on the device is graded by turns in both ways, ABBA, after one round that counts
for nothing (builds come from the cache then, and the device's peaks are known). A line for each sample: medians, the
ratio, and the stages that make the difference. What is wanted is a ratio of at most 1.2. A grading can't be told to
leave its audit out: the time of that stage, which is the last, is taken off instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import Report, grade
from harness.load.expected import load_expected
from harness.machine.device import open_device

ROOT = Path(__file__).resolve().parent.parent
WAYS: dict[str, dict[str, Any]] = {"trusting": {"sandbox": "none"}, "careful": {}}
WANTED = 1.2


class NotAccepted(Exception):
    """A sample ended otherwise than it should: there is nothing to compare."""


def graded(problem: Path, submission: Path, device: str, way: str) -> tuple[float, Report]:
    """Seconds to the verdict in this process, and the report."""
    began = time.monotonic()
    report = grade(problem, submission, device=device, **WAYS[way])
    took = time.monotonic() - began
    if way == "trusting":
        audits_s = sum(stage.seconds for stage in report.stages if stage.name == "audit")
        stages = [stage for stage in report.stages if stage.name != "audit"]
        return took - audits_s, report.model_copy(update={"stages": stages})
    return took, report


def turns(rounds: int) -> Iterator[str]:
    """ABBA: a slow drift of the machine hits both alike."""
    for number in range(rounds):
        yield from (("trusting", "careful") if number % 2 == 0 else ("careful", "trusting"))


def compare(problem: Path, submission: Path, device: str, rounds: int) -> dict[str, Any]:
    """Both ways on one sample. Raises NotAccepted."""
    for way in WAYS:
        _, report = graded(problem, submission, device, way)
        if not report.accepted:
            raise NotAccepted(f"{submission.name} was not accepted ({way}): {report.reason.message}")
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    stages: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    for way in turns(rounds):
        took, report = graded(problem, submission, device, way)
        seconds[way].append(took)
        for stage in report.stages:
            stages[way].setdefault(stage.name, []).append(stage.seconds)
    medians = {way: statistics.median(values) for way, values in seconds.items()}
    names = list(stages["careful"])
    return {
        "submission": submission.name,
        "seconds": seconds,
        "median_s": medians,
        "ratio": medians["careful"] / medians["trusting"],
        "stages_s": {name: {way: statistics.median(stages[way].get(name, [0.0])) for way in WAYS} for name in names},
    }


def main() -> int:
    """Grade by turns, print; 1 when trust costs more than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of files, without .py")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = open_device(arguments.device)
    found: list[dict[str, Any]] = []
    failed = False
    print(f"{'':24s} {'careful s':>10s} {'trusting s':>10s} {'ratio':>7s}   difference by stage, s")
    for each in load_expected(ROOT / "submissions" / "expected.toml"):
        chosen = not arguments.only or Path(each.file).stem in arguments.only
        if each.device != device.kind or each.verdict != "accepted" or not chosen:
            continue
        paths = ROOT / "problems" / each.problem, ROOT / "submissions" / each.file
        try:
            row = compare(*paths, device.torch_name, arguments.rounds)
        except NotAccepted as error:
            failed = True
            print(error, flush=True)
            continue
        found.append(row)
        apart = {name: stage["careful"] - stage["trusting"] for name, stage in row["stages_s"].items()}
        told = ", ".join(f"{name} {seconds:+.2f}" for name, seconds in apart.items() if abs(seconds) >= 0.01)
        medians = row["median_s"]
        print(
            f"{Path(each.file).stem:24s} {medians['careful']:10.2f} {medians['trusting']:10.2f} {row['ratio']:7.3f}"
            f"   {told}",
            flush=True,
        )
    if not found:
        sys.exit(f"no sample was compared on {device.kind}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"device": device.info.name, "wanted": WANTED, "samples": found}, indent=2)
        )
    worst = max(row["ratio"] for row in found)
    print(f"at most {worst:.3f} times as long; {WANTED} is wanted")
    return 0 if worst <= WANTED and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
