"""How loops are ordered: masks on both sides, and rest for who waits for their end. The worker is a fake."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.clock import bench as benches
from harness.clock.bench import Bench
from harness.clock.outside import Walls
from harness.wire.mask import HostMasker, mask
from harness.workers.loop import Loop, Ran
from harness.workers.worker import WorkerFailure


class _Worker:
    """Writes down the loops that it is given; each turn takes 200 us, of which the host needs 20 to launch a call."""

    masker = HostMasker()

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self.flush_bytes = 200_000_000
        self.loops: list[Loop] = []
        self.turns_us: list[float] = []
        self.keys: list[int | None] = []
        self.pool: Any = None
        self.host_us = self.queued_us = 20.0
        """What the host takes to launch a call, as it says, and for all, by our own clock."""
        self.ahead = True
        """Whether its calls were queued when its device was let go."""
        self.early = False
        """Whether it says that a loop has ended before the marks are there."""

    def time(self, loop: Loop, limit_s: float, key: int | None = None, *, turn_us: float = 0.0) -> Ran:
        self.loops.append(loop)
        self.turns_us.append(turn_us)
        self.keys.append(key)
        span_s = (loop.turns - loop.marked) * 200e-6
        return Ran(1e-3 + loop.turns * 200e-6, span_s, "", self.early, self.ahead, self.queued_us / 1e6)

    def times(self, loop: Loop, outputs: str = "") -> Any:
        many = range(loop.turns)
        outputs = [SimpleNamespace(leaves=[]) for _ in many]
        return SimpleNamespace(
            elapsed_us=[7.0 for _ in many], host_us=[self.host_us for _ in many], around_us=17.0, outputs=outputs
        )

    def put(self, name: str, value: Any) -> None:
        self.pool = value

    def drop(self, names: Any) -> None:
        pass


def bench_of(worker: _Worker, call_bytes: int = 1000) -> Bench:
    oracle: Any = SimpleNamespace(
        output_specs=[],
        buffers_move=False,
        call_bytes=call_bytes,
        output_bytes=call_bytes,
        draws=False,
        pool=lambda seeds: [[torch.full((9,), float(seed))] for seed in seeds],
    )
    seeds: Any = SimpleNamespace(of=lambda _, number: number)
    bench = Bench(worker, oracle, seeds, itertools.count(), call_limit_s=1.0)  # type: ignore[arg-type]
    bench.mode = "device"
    return bench


def test_loops_of_the_probe_are_run_as_the_other_process_s_loops_are() -> None:
    worker, walls = _Worker(), Walls(40)
    bench_of(worker).probe_loops(walls, "device")
    bench_of(worker).probe_loops(walls, "device")
    (loop,) = {*worker.loops}
    assert (loop.turns, loop.marked) == (walls.long, walls.short) == (40, 5)
    assert (loop.kind, loop.mode, loop.inputs, loop.sealed) == ("probe", "device", "pool", True)
    assert walls.turns_us == pytest.approx([200.0, 200.0])
    assert walls.beside().us == pytest.approx(200.0 - 17.0 - 7.0)
    assert walls.once.us == pytest.approx(1000.0)
    assert walls.calls == 80
    # Nobody looks for the end while the device still empties L2.
    assert all(0 < turn_us < 160.0 for turn_us in worker.turns_us)


def test_on_a_gpu_inputs_of_loops_are_masked_and_the_probe_takes_as_many_masks_off() -> None:
    worker = _Worker()
    worker.torch_device = torch.device("cuda")
    bench = bench_of(worker)
    bench.fitting = lambda turns: turns  # type: ignore[method-assign]
    bench.find_memory(3)
    (key,) = worker.keys
    assert key is not None
    pool = worker.pool
    assert not torch.equal(pool[1][0], torch.full((9,), 1.0))
    mask([leaf for (leaf,) in pool], worker.masker.key(key), worker.masker)
    assert [float(leaf[0]) for (leaf,) in pool] == [0.0, 1.0]
    bench.put_as_many(4)
    assert [leaf.shape for (leaf,) in worker.pool] == [(9,)] * 4
    bench.probe_loops(Walls(4), "device")
    assert worker.keys[1] not in (None, key)


def test_loops_whose_calls_were_not_queued_in_time_are_counted() -> None:
    worker, walls = _Worker(), Walls(4)
    for worker.ahead in (True, False, False):
        bench_of(worker)._batch(4, walls, marked=1)
    assert walls.behind == 2


def test_on_a_cpu_inputs_of_loops_have_no_mask() -> None:
    worker = _Worker()
    bench = bench_of(worker)
    bench.find_memory(3)
    assert worker.keys == [None]
    assert [float(leaf[0]) for (leaf,) in worker.pool] == [0.0, 1.0]
    worker.pool = None
    bench.put_as_many(4)
    assert worker.pool is None


@pytest.mark.parametrize(
    ("host_us", "queued_us", "mode"),
    [
        (20.0, 100.0, "device"),
        (340.0, 425.0, "device"),
        (360.0, 425.0, "host"),
        (20.0, 1120.0, "host"),  # the worker's word is held against our own clock
    ],
)
def test_where_the_host_takes_longer_than_some_it_is_part_of_the_time(
    host_us: float, queued_us: float, mode: str
) -> None:
    worker = _Worker()
    worker.host_us, worker.queued_us = host_us, queued_us
    bench = bench_of(worker)
    bench.choose_mode(100.0, 80.0)
    assert bench.mode == mode


def test_a_loop_of_the_probe_is_run_again_where_its_host_was_not_ahead() -> None:
    worker, walls = _Worker(), Walls(4)
    worker.ahead = False
    bench_of(worker).probe_loops(walls, "device")
    assert len(worker.loops) == 3
    assert len(walls.loops) == 1


def test_a_loop_that_is_said_to_have_ended_before_its_device_had_is_no_loop() -> None:
    worker = _Worker()
    worker.early = True
    with pytest.raises(benches.OutputChanged):
        bench_of(worker).find_memory(4)
    with pytest.raises(WorkerFailure):
        bench_of(worker).probe_loops(Walls(40), "device")


def test_on_a_cpu_short_loops_and_long_ones_say_what_a_turn_takes() -> None:
    worker, walls = _Worker(), Walls(40, marked=False)
    bench_of(worker).probe_loops(walls, "host")
    assert [(loop.turns, loop.marked) for loop in worker.loops] == [(5, 0), (40, 0)]
    assert walls.beside().us == pytest.approx(200.0 - 7.0)


def test_where_the_device_is_waited_for_nobody_rests() -> None:
    worker = _Worker()
    bench_of(worker).probe_loops(Walls(8), "host")
    assert set(worker.turns_us) == {0.0}


def test_a_further_process_is_timed_as_the_first_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(Bench, "single", lambda self: made.append(self))
    monkeypatch.setattr(Bench, "forget", lambda _: None)
    first, second = bench_of(_Worker()), bench_of(_Worker())
    first.mode = "host"
    second.follow(first)
    assert second.mode == "host"
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
