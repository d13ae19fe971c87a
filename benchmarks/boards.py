"""Server, agent and client in one run: three submissions to each sample problem, and the leaderboards they make.

    python -m benchmarks.boards [--device auto|cpu|cuda[:N]] [--json FILE]

Starts `harness serve` with an agent for the device, makes a key for each submission (a leaderboard has one row a user),
hands all of them in at once, and waits until each has its report. Prints the leaderboards; FILE gets them as the server
gives them. On a CPU there is one submission for each problem. Ends with exit code 1 where one ended otherwise than
expected.toml says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.serving.served import environment, served
from harness.client import Client
from harness.load.expected import load_expected
from harness.machine.device import open_device

ROOT = Path(__file__).resolve().parent.parent
SUBMISSIONS = ROOT / "submissions"
ON_GPU = (
    *("recurrence_v2.py", "recurrence_triton.py", "recurrence_best.py"),
    *("s6_v1.py", "s6_v2.py", "s6_v3.py"),
    *("gemm_bn_softmax_v1.py", "gemm_bn_softmax_tf32.py", "gemm_bn_softmax_best.py"),
)
ON_CPU = ("recurrence_cpu.py", "s6_cpu.py", "gemm_bn_softmax_cpu.py")


def main() -> int:
    """Serve, submit, wait, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    device = open_device(arguments.device)
    files = ON_CPU if device.kind == "cpu" else ON_GPU
    expected = {each.file: each for each in load_expected(SUBMISSIONS / "expected.toml")}
    with (
        tempfile.TemporaryDirectory(prefix="boards-") as data,
        served("--data", data, "--devices", device.torch_name) as said,
    ):
        began = time.monotonic()
        clients = {name: Client(said["url"], _key(name.removesuffix(".py"), data)) for name in files}
        handed = {
            name: client.submit(expected[name].problem, (SUBMISSIONS / name).read_text(), label=name)
            for name, client in clients.items()
        }
        reports = {name: clients[name].wait(submission["id"])["report"] for name, submission in handed.items()}
        seconds = time.monotonic() - began
        problems = dict.fromkeys(expected[name].problem for name in files)
        boards = {problem: clients[files[0]].leaderboard(problem) for problem in problems}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(boards, indent=1) + "\n")
    for problem, board in boards.items():
        _print(problem, board)
    ended = {
        name: ("no report", "") if report is None else (report["verdict"], report["reason"]["code"])
        for name, report in reports.items()
    }
    print(f"\n{len(files)} submissions at once had their reports after {seconds:.0f} s:")
    for name, (verdict, reason) in ended.items():
        print(f"  {name:28s} {verdict}, {reason}")
    wanted = {name: (expected[name].verdict, expected[name].reason) for name in files}
    return 0 if ended == wanted else 1


def _key(name: str, data: str) -> str:
    argv = [sys.executable, "-m", "harness", "keys", "create", name, "--data", data]
    made = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, env=environment())
    if made.returncode:
        sys.exit(f"no key for {name} could be made: harness keys create ended with {made.returncode}")
    return made.stdout.split()[-1]


def _print(problem: str, board: dict[str, Any]) -> None:
    print(f"\n{problem} on {board['device']}, workload {board['workload']}")
    for entry in board["entries"]:
        low, high = entry["ci95_us"]
        print(
            f"{entry['rank']:4d}  {entry['user']:24s}{entry['time_us']:12.1f} us ({low:.1f} to {high:.1f})"
            f"{entry['speedup']:10.2f} times the reference"
        )


if __name__ == "__main__":
    sys.exit(main())
