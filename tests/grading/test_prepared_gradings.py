"""Gradings in prepared workers: they end as in fresh ones, and no submission reaches the worker of the next."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import REFERENCE, TOML

from harness import Report, grade, sandbox
from harness.machine.device import open_device
from harness.selftest.running import isolates
from harness.workers.prepared import EarlyWorkers, PreparedWorkers
from harness.workers.process import Terms, WorkerProcess

RIGHT = REFERENCE.replace("class Model(", "class ModelNew(")
FACTS = """
import json, os, socket, sys

def links():
    for fd in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
        except OSError:
            pass  # that of the listing itself

def refused(act):
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"

status = open("/proc/self/status").read().splitlines()
print(json.dumps({
    "environment": sorted(os.environ.items()),
    "privileges": [line for line in status if line.startswith(("Uid", "Gid", "Cap", "NoNewPrivs", "Seccomp:"))],
    # The grader's clock has shared its page already.
    "descriptors": sorted(link for link in links() if not link.startswith("/memfd")),
    "folders": {folder: sorted(os.listdir(folder)) for folder in ("/", "/dev/shm", "/dev")},
    "tmp": refused(lambda: open("/tmp/file", "w")),
    "elsewhere": refused(lambda: open("/usr/file", "w")),
    "network": refused(lambda: socket.create_connection(("127.0.0.1", 22), 1)),
    "ours": sorted(name for name in sys.modules if name.startswith("harness")),
}))
"""
ENDINGS = {
    "right": FACTS + RIGHT,
    "wrong": RIGHT.replace("* self.factor", "+ self.factor"),
    "exits when imported": "import os; os._exit(0)\n" + RIGHT,
}
HOSTILE = """
import os, signal, sys, threading

seen = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
print("processes:", len(seen), max(seen) < 1000)
threads = {int(name) for name in os.listdir("/proc/self/task")}
for target in [-1, *range(2, 40000)]:
    if target not in threads:
        try:
            os.kill(target, signal.SIGKILL)
        except OSError:
            pass
for folder in ("/tmp", "/dev/shm", os.environ["HOME"], "/var/tmp", "/run"):
    try:
        os.makedirs(f"{folder}/left", exist_ok=True)
        open(f"{folder}/left/sitecustomize.py", "w").write("raise SystemExit")
    except OSError:
        pass
os.environ["PYTHONSTARTUP"] = "/tmp/left/sitecustomize.py"
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PreparedWorkers]:
    """Of two, so that one waits beside each grading that only checks."""
    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    with PreparedWorkers(open_device("cpu"), sandbox.default()) as pool:
        yield pool


@pytest.fixture
def checked(problem_folder: Any, submission_file: Any) -> Callable[..., Report]:
    """Check a submission on the CPU."""

    def run(source: str, prepared: PreparedWorkers | None = None, *, toml: str = TOML, **options: Any) -> Report:
        options = {"device": "cpu", "mode": "check"} | options
        return grade(problem_folder(toml=toml), submission_file(source), prepared=prepared, **options)

    return run


@pytest.mark.parametrize("ending", ENDINGS)
def test_gradings_end_alike_and_submissions_see_the_same(
    ending: str, pool: PreparedWorkers, checked: Callable[..., Report]
) -> None:
    assert pool.wait(120)
    waiting = set(pool.pids)
    prepared = checked(ENDINGS[ending], pool, seed=1)
    assert set(pool.pids) < waiting  # it was one of them
    pool.close()
    fresh = checked(ENDINGS[ending], seed=1)
    assert (prepared.verdict, prepared.reason.code) == (fresh.verdict, fresh.reason.code)
    assert prepared.reason.message == fresh.reason.message
    assert prepared.correctness == fresh.correctness
    if ending == "right":
        facts = json.loads(prepared.log.splitlines()[0])
        assert facts == json.loads(fresh.log.splitlines()[0])
        assert not {"harness.seeds", "harness.check.oracle", "harness.grading.grading"} & set(facts["ours"])


def test_a_timed_grading_takes_all(pool: PreparedWorkers, checked: Callable[..., Report]) -> None:
    assert pool.wait(120)
    beside: list[int] = []
    report = checked(
        RIGHT,
        pool,
        mode="run",
        budget_s=0.2,
        on_event=lambda event: beside.extend(pool.pids) if "time" in str(event) else 0,
    )
    assert report.timing is not None
    assert beside == []


def test_limits_hold_in_a_prepared_worker_from_its_first_order_on(
    pool: PreparedWorkers, checked: Callable[..., Report]
) -> None:
    toml = TOML.replace("[limits]", "[limits]\nmemory_gb = 1.5")
    hungry = RIGHT + "\nkept = torch.ones(3 << 29)\nimport time; time.sleep(5)\n"
    for _ in range(2):  # the first one only says which limit is wanted
        assert pool.wait(120)
        waiting = set(pool.pids)
        report = checked(hungry, pool, toml=toml)
    assert set(pool.pids) < waiting
    assert (report.verdict.value, report.reason.code) == ("memory_limit", "limit.host_memory"), report.reason


@pytest.mark.skipif(not isolates(None), reason="no sandbox isolates here")
def test_a_hostile_submission_does_not_reach_the_next_worker(
    pool: PreparedWorkers, checked: Callable[..., Report]
) -> None:
    assert pool.wait(120)
    report = checked(HOSTILE + RIGHT, pool)
    assert report.accepted, report.reason
    assert report.log.startswith("processes: ")
    assert report.log.split()[2] == "True"
    waits = set(pool.pids)
    assert waits
    # The one that waited beside it is the one that the next grading takes.
    again = checked(FACTS + RIGHT, pool)
    assert again.accepted, again.reason
    assert not waits & set(pool.pids)
    assert "left" not in again.log


def assert_alone_on_its_device(report: Report) -> None:
    """Fail unless it was accepted, and nobody's contexts were in the way or are left."""
    assert report.accepted, report.reason
    codes = {warning.code for warning in report.warnings}
    assert not codes & {"device.memory_kept", "device.shared", "device.slow"}


@pytest.mark.gpu
def test_on_a_gpu_contexts_are_ready_and_known_as_idle(
    problem_folder: Any, submission_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs one GPU with nobody else on it."""
    from harness.machine.idle import idle

    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    device = open_device("cuda")
    with PreparedWorkers(device, sandbox.default()) as pool:
        for _ in range(3):
            assert pool.wait(240)
            assert idle(device.lock_name) >= set(pool.pids)
            assert_alone_on_its_device(grade(problem_folder(), submission_file(RIGHT), device="cuda", prepared=pool))
    assert idle(device.lock_name) == set()


@pytest.mark.gpu
def test_on_a_gpu_early_ones_have_contexts_when_the_grader_asks_for_them(
    problem_folder: Any, submission_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs one GPU with nobody else on it."""
    from harness.machine.idle import idle
    from harness.machine.place import likely_place

    monkeypatch.setenv("HARNESS_LOCK_DIR", str(tmp_path / "locks"))
    device = open_device("cuda")
    place = likely_place("cuda")
    assert place == device.place
    with EarlyWorkers(None, place) as early:
        early.start(None, 5)
        until = time.monotonic() + 120
        while len(idle(device.lock_name)) < 5 and time.monotonic() < until:
            time.sleep(0.1)
        assert_alone_on_its_device(grade(problem_folder(), submission_file(RIGHT), device="cuda", prepared=early))
    assert idle(device.lock_name) == set()


def test_a_process_that_was_touched_is_graded_in_as_any_other(checked: Callable[..., Report]) -> None:
    class Touched(EarlyWorkers):
        """All that a GPU's get, on the CPU."""

        def take(self, terms: Terms, count: int) -> list[WorkerProcess]:
            processes = super().take(terms, count)
            for process in processes:
                process.greet(60)
                process.touch("cpu", 60)
            return processes

    place = open_device("cpu").place
    with Touched(None, place) as early:
        early.start(None, 1)
        report = checked(RIGHT, early)  # type: ignore[arg-type]
        assert report.accepted, report.reason
