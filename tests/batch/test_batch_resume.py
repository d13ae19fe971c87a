"""A batch that is killed goes on: each submission has one result, and what was written is not graded again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from batch_fakes import FakeExecutor, entry, index_of, report

from harness.batch.inputs import BadInput
from harness.batch.job import Options
from harness.batch.run import run_batch
from harness.batch.store import RESULTS, Result, RunError, Store, read_not_used, read_results
from harness.report import Verdict

ROOT = Path(__file__).resolve().parents[2]
COUNT = 60
KILLS = 3


def start(folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killed_batch.py")), str(folder), str(COUNT)],
        env={**os.environ, "PYTHONPATH": path},
    )


def results_in(folder: Path) -> int:
    path = folder / "run" / RESULTS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_killed_several_times_each_is_graded_once(tmp_path: Path) -> None:
    for kill in range(1, KILLS + 1):
        process = start(tmp_path)
        deadline = time.monotonic() + 60
        while results_in(tmp_path) < 10 * kill and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert results_in(tmp_path) < COUNT, "it was done before it was killed"
    with (tmp_path / "run" / RESULTS).open("ab") as file:
        file.write(b'{"id": "s59", "problem": "soft')  # as a kill in the middle of a write leaves it
    assert start(tmp_path).wait(60) == 0
    results = list(read_results(tmp_path / "run"))
    assert Counter(result.id for result in results) == Counter(f"s{number}" for number in range(COUNT))
    assert results_in(tmp_path) == COUNT, "nothing was written twice"
    assert sum(result.same_as is not None for result in results) == COUNT // 3
    begun = Counter((tmp_path / "begun.log").read_text().split())
    assert len(begun) == COUNT - COUNT // 3
    # A kill loses what was under way, two at a time here, and nothing else.
    assert sum(begun.values()) - len(begun) <= 2 * KILLS


def made(tmp_path: Path, count: int = 3) -> Store:
    (named,) = index_of(tmp_path / "p", "softmax").named
    store = Store(tmp_path / "run", {"mode": "run"})
    with store:
        entries = [entry(named, f"s{number}", f"# {number}\n") for number in range(count)]
        asyncio.run(run_batch(entries, FakeExecutor(), store, Options()))
    return store


@pytest.mark.parametrize("left", [1, 100, -1])
def test_wherever_a_line_is_torn_the_others_stay(tmp_path: Path, left: int) -> None:
    path = made(tmp_path).path
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + lines[2][:left])
    assert len(list(read_results(tmp_path / "run"))) == 2
    with Store(tmp_path / "run", {"mode": "run"}) as store:
        assert store.repaired
        assert path.read_bytes() == lines[0] + lines[1]
        (named,) = index_of(tmp_path / "p", "softmax").named
        executor = FakeExecutor()
        entries = [entry(named, f"s{number}", f"# {number}\n") for number in range(3)]
        tally = asyncio.run(run_batch(entries, executor, store, Options()))
    assert (tally.before, tally.graded, len(executor.graded)) == (2, 1, 1)
    assert len(list(read_results(tmp_path / "run"))) == 3


def test_a_damaged_line_in_the_middle_is_told_and_nothing_is_cut(tmp_path: Path) -> None:
    path = made(tmp_path).path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"nonsense\n" + lines[2])
    with pytest.raises(RunError, match=f"byte {len(lines[0])}, that is no result"), Store(path.parent, {"mode": "run"}):
        pass
    assert path.read_bytes() == lines[0] + b"nonsense\n" + lines[2]


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    with Store(tmp_path, {}):
        with pytest.raises(RunError, match="Another process"), Store(tmp_path, {}):
            pass
        assert list(read_results(tmp_path)) == []  # reading is free
    with Store(tmp_path, {}):
        pass  # and afterwards so is writing


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    with Store(tmp_path, {"mode": "run", "workload": None}):
        pass
    with pytest.raises(RunError, match="workload None before, 'large' now"):
        Store(tmp_path, {"mode": "run", "workload": "large"}).__enter__()


def test_a_failure_of_ours_is_tried_again_and_the_later_result_counts(tmp_path: Path) -> None:
    (named,) = index_of(tmp_path / "p", "softmax").named
    entries = [entry(named, "s")]
    for verdict, code in ((Verdict.JUDGE_ERROR, "judge.lost"), (Verdict.ACCEPTED, "grade.accepted")):

        async def grade_with(_: object, verdict: Verdict = verdict, code: str = code) -> object:
            return report(verdict, code)

        with Store(tmp_path / "run", {}) as store:
            executor = FakeExecutor(grade_with=grade_with)  # type: ignore[arg-type]
            asyncio.run(run_batch(entries, executor, store, Options()))
            assert len(executor.graded) == 1
    (result,) = read_results(tmp_path / "run")
    assert result.report.accepted


def test_what_a_submission_wrote_can_be_stored(tmp_path: Path) -> None:
    odd = report(message="half a pair: \ud800", log="\ud83d\n\u2028", speedup=float("inf"))
    result = Result(id="s", problem="p", attempt=1, key="k", report=odd)
    with Store(tmp_path, {}) as store:
        store.add([result])
        store.write_not_used([BadInput("a\ud800", "b")])
        read = store.same("k")
    assert read is not None
    assert read.report.reason.message == "half a pair: ?"
    assert read.report.timing is not None
    assert read.report.timing.speedup == float("inf")
    assert read_not_used(tmp_path) == [BadInput("a?", "b")]


def test_a_folder_without_results_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no results"):
        list(read_results(tmp_path))
