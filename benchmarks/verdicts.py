"""Time to verdict, stage by stage, for every sample that expected.toml names for a device.

    python -m benchmarks.verdicts [--device cuda] [--only NAME ...] [--large] [--out FILE]

Each line is one run of the command line, `harness run ... --json -`, in a process of its own, so that importing torch
counts as it does for a user. Ends with exit code 1 when a verdict or reason is not what expected.toml says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness.load.expected import load_expected

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("load", "build", "check", "time")


def run(problem: Path, submission: Path, device: str) -> tuple[float, dict[str, Any] | str]:
    """Seconds of the whole command; its report, or what it said where it printed none."""
    command = [sys.executable, "-m", "harness", "run", str(problem), str(submission), "--device", device, "--json", "-"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    seconds = time.monotonic() - began
    try:
        return seconds, json.loads(done.stdout)
    except ValueError:
        return seconds, f"{' '.join(command)} printed no report (exit code {done.returncode}):\n{done.stderr[-3000:]}"


def line(name: str, seconds: float, report: dict[str, Any]) -> str:
    """One row of the table."""
    stages = {stage["name"]: stage["seconds"] for stage in report["stages"]}
    build = report["build"]
    row = f"{name:24s} {report['verdict']:14s} {seconds:7.1f} "
    row += " ".join(f"{stages.get(stage, 0.0):6.1f}" for stage in STAGES)
    row += f" {build['seconds']:7.1f}{'c' if build['cached'] else ' '}"
    if timing := report["timing"]:
        low, high = map(float, timing["candidate"]["ci95_us"])  # of too few samples: the text Infinity
        row += f" {timing['candidate']['median_us']:10.2f} {100 * (high - low) / (high + low):5.2f}"
        row += f" {timing['reference']['median_us']:12.2f} {timing['speedup']:8.3f}"
    return row


def main() -> int:
    """Grade, print, compare with what is expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", nargs="*", default=[], help="names of files, without .py")
    parser.add_argument("--large", action="store_true", help="also the 6.4 GB softplus (CUDA)")
    parser.add_argument("--out", type=Path, help="append a JSON line for each run")
    arguments = parser.parse_args()
    jobs = [
        (ROOT / "problems" / each.problem, ROOT / "submissions" / each.file, each.verdict, each.reason)
        for each in load_expected(ROOT / "submissions" / "expected.toml")
        if each.device == arguments.device and (not arguments.only or Path(each.file).stem in arguments.only)
    ]
    if arguments.large:
        folder = ROOT / "benchmarks" / "problems"
        jobs.append((folder / "softplus_large.py", folder / "softplus_large_cuda.py", "accepted", "grade.accepted"))
    print(f"{'':24s} {'verdict':14s} {'all s':>7s} " + " ".join(f"{stage:>6s}" for stage in STAGES), end="")
    print(f" {'compile':>7s}  {'median us':>10s} {'+-%':>5s} {'reference us':>12s} {'speedup':>8s}")
    wrong = 0
    for problem, submission, verdict, reason in jobs:
        seconds, report = run(problem, submission, arguments.device)
        if isinstance(report, str):
            wrong += 1
            print(f"{submission.stem:24s} {report}", flush=True)
            continue
        print(line(submission.stem, seconds, report), flush=True)
        if (report["verdict"], report["reason"]["code"]) != (verdict, reason):
            wrong += 1
            print(f"  expected {verdict} {reason}; got {report['reason']['code']}: {report['reason']['message'][:600]}")
            print(f"  {json.dumps(report['reason']['evidence'])[:1500]}")
        if arguments.out:
            with arguments.out.open("a") as out:
                out.write(json.dumps({"file": submission.name, "seconds": seconds, **report}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
