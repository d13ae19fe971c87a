"""How loops are ordered: the same idling on both sides, and rest for who waits for their end. The worker is a fake."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.clock import bench as benches
from harness.clock.bench import Bench
from harness.clock.outside import Walls
from harness.workers.loop import Loop, Ran
from harness.workers.worker import WorkerFailure


class _Worker:
    """Writes down the loops that it is given; each turn takes 200 us, of which the host needs `host_us`."""

    def __init__(self, host_us: float = 100.0) -> None:
        self.torch_device = torch.device("cpu")
        self.flush_bytes = 200_000_000
        self.loops: list[Loop] = []
        self.turns_us: list[float] = []
        self._host_us = host_us
        self.early = False
        """Whether it says that a loop has ended before the marks are there."""

    def time(self, loop: Loop, limit_s: float, key: int | None = None, *, turn_us: float = 0.0) -> Ran:
        self.loops.append(loop)
        self.turns_us.append(turn_us)
        return Ran(1e-3 + loop.turns * 200e-6, (loop.turns - loop.marked) * 200e-6, "", self.early)

    def times(self, loop: Loop, outputs: str = "") -> Any:
        launched_us = (loop.turns - 1) * self._host_us
        return SimpleNamespace(elapsed_us=[7.0] * loop.turns, around_us=17.0, launched_us=launched_us)


def bench_of(worker: _Worker, call_bytes: int = 1000) -> Bench:
    oracle: Any = SimpleNamespace(
        output_specs=[], buffers_move=False, call_bytes=call_bytes, output_bytes=call_bytes, draws=False
    )
    bench = Bench(worker, oracle, None, itertools.count(), call_limit_s=1.0)  # type: ignore[arg-type]
    bench.mode = "device"
    return bench


def test_loops_of_the_probe_are_run_as_the_other_process_s_loops_are() -> None:
    worker, walls = _Worker(), Walls(40)
    bench_of(worker).probe_loops(walls, "device", 60.0)
    bench_of(worker).probe_loops(walls, "device", 60.0)
    (loop,) = {*worker.loops}
    assert (loop.turns, loop.marked) == (walls.long, walls.short) == (40, 5)
    assert (loop.kind, loop.mode, loop.queue_us, loop.sealed) == ("probe", "device", 60.0, True)
    assert walls.turns_us == pytest.approx([200.0, 200.0])
    assert walls.beside().us == pytest.approx(200.0 - 17.0 - 7.0)
    assert walls.once.us == pytest.approx(1000.0)
    assert walls.calls == 80
    # Nobody looks for the end while the device still idles and empties L2.
    assert all(0 < turn_us < 160.0 for turn_us in worker.turns_us)


def test_a_loop_that_is_said_to_have_ended_before_its_device_had_is_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "put_fresh", lambda _, count: [(0, 0)] * count)
    worker = _Worker()
    worker.early = True
    with pytest.raises(benches.OutputChanged):
        bench_of(worker).find_memory(4)
    with pytest.raises(WorkerFailure):
        bench_of(worker).probe_loops(Walls(40), "device", 60.0)


def test_on_a_cpu_short_loops_and_long_ones_say_what_a_turn_takes() -> None:
    worker, walls = _Worker(), Walls(40, marked=False)
    bench_of(worker).probe_loops(walls, "host", 0.0)
    assert [(loop.turns, loop.marked) for loop in worker.loops] == [(5, 0), (40, 0)]
    assert walls.beside().us == pytest.approx(200.0 - 7.0)


def test_where_the_device_is_waited_for_nobody_rests() -> None:
    worker = _Worker()
    bench_of(worker).probe_loops(Walls(8), "host", 60.0)
    assert set(worker.turns_us) == {0.0}


@pytest.mark.parametrize(("host_us", "queue_us"), [(20.0, 40.0), (100.0, 63.0), (1000.0, 1593.0), (9000.0, 2000.0)])
def test_a_batch_idles_for_what_the_host_needs_beyond_the_device_and_a_margin(host_us: float, queue_us: float) -> None:
    assert bench_of(_Worker(host_us)).probe_queue_us(100.0) == pytest.approx(queue_us)


def test_a_further_process_is_timed_as_the_first_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(Bench, "single", lambda self: made.append(self))
    monkeypatch.setattr(Bench, "forget", lambda _: None)
    first, second = bench_of(_Worker()), bench_of(_Worker())
    first.mode, first.queue_us = "host", 123.0
    second.follow(first)
    assert (second.mode, second.queue_us) == ("host", 123.0)
    assert made
    assert set(made) == {second}


def test_a_batch_has_as_many_turns_as_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10_000, 20_000))
    worker = _Worker()
    assert bench_of(worker).fitting(50) == 50
    worker.torch_device = torch.device("cuda")
    assert bench_of(worker, call_bytes=100).fitting(50) == 10
    assert bench_of(worker, call_bytes=10**9).fitting(50) == 2
    assert benches._BATCH_MEMORY == 0.1
