"""From the call to the verdict, where the seconds of a small problem go: with and without prepared workers.

    python -m benchmarks.latency [--device auto|cpu|cuda] [--runs 5] [--ways fresh prepared command server]
                                 [--mode run|check] [--pause 20] [--json FILE]
    python -m benchmarks.latency --breakdown [--runs 5] [--ways prepared] [--mode run|check] [--device auto|cpu|cuda]

fresh      harness.grade in a process that has imported torch; the grading starts its workers
prepared   the same, with workers ready
command    `harness run` as a command, from its start to its end
server     POST to the verdict, with a server and an agent on this machine; each after `--pause` seconds in which the
           agent gets ready again

With `--breakdown`, of gradings in this process (fresh, prepared): each event of the last run, when it came, how long it
was until the next, and the seconds of processor time that this process spent meanwhile. What comes before the first
event and after the last is the look at the arguments, and the end of the workers' processes. Then how many orders of
each kind the workers were given, and how long their answers were waited for.

The submission of benchmarks/problems/twice is built, and a GPU's peaks are measured, by a first grading that does not
count. Each row is the median over the runs, in seconds; `rest` is what lies between and around the stages: waiting for
the lock, the look at the device, ending processes; of a command also its start and imports; of the server HTTP and
queue. For a quiet machine: what else runs on it is in every figure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving.served import environment, served
from harness.events import Event, EventSink, Progress, StageStarted, ignore

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "benchmarks" / "problems"
PROBLEM = PROBLEMS / "twice"
STAGES = ("load", "build", "check", "time", "audit")
TARGETS = {"server": 2.0, "command": 8.0}
"""Seconds on an H200."""
_READY_S = 300.0
"""For workers to get ready, at most: the first time a GPU is measured as well."""


@dataclass(frozen=True)
class Way:
    """One way to have it graded."""

    once: Callable[..., dict[str, Any]]
    """A grading; its report as data. Those of this process take a sink for its events."""
    before: Callable[[], object] = lambda: None
    """Waits until that may begin."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--mode", default="run", choices=("run", "check"))
    parser.add_argument("--pause", type=float, default=20.0)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--breakdown", action="store_true")
    arguments = parser.parse_args()
    arguments.device, arguments.submission = _device(arguments.device)
    _first(arguments)
    if arguments.breakdown:
        for way in [each for each in arguments.ways if each in ("fresh", "prepared")]:
            _break_down(way, arguments)
        return 0
    rows = {}
    for way in arguments.ways:
        with WAYS[way](arguments) as asked:
            rows[way] = [_measured(asked, way) for _ in range(arguments.runs)]
        print(f"{way}: {', '.join(format(run['all'], '.2f') for run in rows[way])} s", file=sys.stderr, flush=True)
    figures = {way: _medians(runs) for way, runs in rows.items()}
    _print(figures, arguments)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"device": arguments.device, "medians": figures, "runs": rows}, indent=1))
    return 0


def _device(asked: str) -> tuple[str, Path]:
    from harness.machine.device import open_device

    kind = open_device(asked).kind
    return kind, PROBLEM / f"twice_{kind}.py"


def _first(arguments: argparse.Namespace) -> None:
    """Build, measure the device, and see that it is accepted."""
    from harness import grade

    report = grade(PROBLEM, arguments.submission, device=arguments.device, mode=arguments.mode)
    if not report.accepted:
        sys.exit(f"the submission is not accepted: {report.reason.message}")


@contextlib.contextmanager
def _fresh(arguments: argparse.Namespace) -> Iterator[Way]:
    from harness import grade

    def once(on_event: EventSink = ignore) -> dict[str, Any]:
        report = grade(PROBLEM, arguments.submission, device=arguments.device, mode=arguments.mode, on_event=on_event)
        return report.model_dump(mode="json")

    yield Way(once)


@contextlib.contextmanager
def _prepared(arguments: argparse.Namespace) -> Iterator[Way]:
    from harness import grade, sandbox
    from harness.machine.device import open_device
    from harness.workers.prepared import PreparedWorkers

    device = open_device(arguments.device)
    with PreparedWorkers(device, sandbox.default(), count=None if arguments.mode == "run" else 1) as workers:

        def once(on_event: EventSink = ignore) -> dict[str, Any]:
            report = grade(
                PROBLEM,
                arguments.submission,
                device=arguments.device,
                mode=arguments.mode,
                prepared=workers,
                on_event=on_event,
            )
            return report.model_dump(mode="json")

        yield Way(once, lambda: workers.wait(_READY_S))


@contextlib.contextmanager
def _command(arguments: argparse.Namespace) -> Iterator[Way]:
    argv = [sys.executable, "-m", "harness", arguments.mode, str(PROBLEM), str(arguments.submission)]
    argv += ["--device", arguments.device, "--json", "-"]

    def once() -> dict[str, Any]:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_READY_S, env=environment())
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    yield Way(once)


@contextlib.contextmanager
def _server(arguments: argparse.Namespace) -> Iterator[Way]:
    from harness.client import Client

    source = arguments.submission.read_text()
    device = "cpu" if arguments.device == "cpu" else "cuda:0"
    with (
        tempfile.TemporaryDirectory(prefix="latency-") as data,
        served("--data", data, "--problems", str(PROBLEMS), "--devices", device) as said,
        Client(said["url"], said["key"]) as client,
    ):

        def once() -> dict[str, Any]:
            submission = client.submit(PROBLEM.name, source, mode=arguments.mode)
            report: dict[str, Any] = client.wait(submission["id"])["report"]
            return report

        yield Way(once, lambda: time.sleep(arguments.pause))


WAYS: dict[str, Callable[[argparse.Namespace], contextlib.AbstractContextManager[Way]]] = {
    "fresh": _fresh,
    "prepared": _prepared,
    "command": _command,
    "server": _server,
}


def _measured(asked: Way, way: str) -> dict[str, float]:
    """Seconds of one grading, by stage."""
    asked.before()
    began = time.perf_counter()
    report = asked.once()
    seconds = time.perf_counter() - began
    if report["verdict"] != "accepted":
        sys.exit(f"{way}: {report['verdict']}, {report['reason']['message']}")
    stages = {stage["name"]: float(stage["seconds"]) for stage in report["stages"]}
    found = {name: stages.get(name, 0.0) for name in STAGES}
    return {"all": seconds, **found, "rest": seconds - sum(found.values())}


def _break_down(way: str, arguments: argparse.Namespace) -> None:
    """Print where the last of the runs was when."""
    with WAYS[way](arguments) as asked:
        for _ in range(arguments.runs):
            asked.before()
            seen: list[tuple[float, float, str]] = []

            def see(event: Event, seen: list[tuple[float, float, str]] = seen) -> None:
                seen.append((time.perf_counter(), time.process_time(), _named(event)))

            with _orders() as orders:
                seen.append((time.perf_counter(), time.process_time(), "called"))
                report = asked.once(see)
                seen.append((time.perf_counter(), time.process_time(), f"report: {report['verdict']}"))
    print(f"{way}: {PROBLEM.name}, mode {arguments.mode}, {arguments.device}, the last of {arguments.runs}, seconds")
    print(f"{'at':>8s}{'lasted':>8s}{'busy':>8s}  event")
    for (at, busy, what), (until, busy_until, _) in zip(seen, [*seen[1:], seen[-1]], strict=True):
        print(f"{at - seen[0][0]:8.3f}{until - at:8.3f}{busy_until - busy:8.3f}  {what}")
    print(f"{'orders':>8s}{'waited':>8s}{'ms each':>8s}  answer")
    for kind, waits in sorted(orders.items(), key=lambda item: -sum(item[1])):
        print(f"{len(waits):8d}{sum(waits):8.3f}{1e3 * statistics.median(waits):8.2f}  {kind}")
    if report["timing"] is not None:
        print(f"timing ended: {report['timing']['stopped_because']}")


def _named(event: Event) -> str:
    if isinstance(event, Progress):
        return f"{event.stage}: {event.message}"
    return f"{event.stage} begins" if isinstance(event, StageStarted) else f"{event.stage} has ended"


@contextlib.contextmanager
def _orders() -> Iterator[dict[str, list[float]]]:
    """Inside, the seconds that each answer of a worker was waited for, by its kind; `loop` is the clock's own wait."""
    from harness.wire.stopwatch import Stopwatch
    from harness.workers.worker import Worker

    waits: dict[str, list[float]] = defaultdict(list)
    answer, time_loop = Worker._answer, Stopwatch.time

    def timed_answer(self: Worker, pending: Any, kind: type[Any]) -> Any:
        began = time.perf_counter()
        try:
            return answer(self, pending, kind)
        finally:
            waits[f"{pending.phase}: {kind.__name__.lower()}"].append(time.perf_counter() - began)

    def timed_loop(self: Stopwatch, *args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return time_loop(self, *args, **options)
        finally:
            waits["loop"].append(time.perf_counter() - began)

    Worker._answer, Stopwatch.time = timed_answer, timed_loop  # type: ignore[method-assign, assignment]
    try:
        yield waits
    finally:
        Worker._answer, Stopwatch.time = answer, time_loop  # type: ignore[method-assign]


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(run[name] for run in runs), 4) for name in runs[0]}


def _print(figures: dict[str, dict[str, float]], arguments: argparse.Namespace) -> None:
    columns = ("all", *STAGES, "rest")
    print(f"{PROBLEM.name}, mode {arguments.mode}, {arguments.device}, median of {arguments.runs}, seconds")
    print(f"{'':10s}" + "".join(f"{name:>8s}" for name in columns) + f"{'/fresh':>8s}  target on an H200")
    for way, row in figures.items():
        ratio = f"{row['all'] / figures['fresh']['all']:8.2f}" if "fresh" in figures else f"{'':8s}"
        target = f"{TARGETS[way]:g} s" if way in TARGETS else ""
        print(f"{way:10s}" + "".join(f"{row[name]:8.3f}" for name in columns) + ratio + f"  {target}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
